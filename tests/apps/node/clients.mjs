// Every way in which Node.js sends HTTP, to a server that no base-URL variable names: a line for each with what it got.
import http, { request as requestByName } from "node:http";
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

const require = createRequire(`${process.env.MODULES}/`);
const server = process.env.SERVER;
const prompt = process.env.PROMPT || "What is the capital of France?";
const messages = [{ role: "user", content: prompt }];
const options = { apiKey: process.env.KEY, maxRetries: 0 };
const url = `${server}/v1/chat/completions`;
const headers = { authorization: `Bearer ${process.env.KEY}`, "content-type": "application/json" };
const body = (name, stream = false) => JSON.stringify({ model: `${name}-${stream ? "stream" : "plain"}.0`, messages, stream });
const text = (answer) => answer.choices[0].message.content;

async function viaOpenai() {
  const OpenAI = require("openai").OpenAI;
  const client = new OpenAI({ ...options, baseURL: `${server}/v1` });
  return text(await client.chat.completions.create({ model: "openai-plain.0", messages }));
}

async function viaOpenaiStream() {
  const OpenAI = require("openai").OpenAI;
  const client = new OpenAI({ ...options, baseURL: `${server}/v1` });
  const stream = await client.chat.completions.create({ model: "openai-stream.0", messages, stream: true });
  const pieces = [];
  for await (const chunk of stream) pieces.push(chunk.choices[0]?.delta.content ?? "");
  return pieces.join("|");
}

async function viaAnthropic() {
  const Anthropic = require("@anthropic-ai/sdk").Anthropic;
  const client = new Anthropic({ ...options, baseURL: server });
  const answer = await client.messages.create({ model: "anthropic-plain.0", max_tokens: 9, messages });
  return answer.content[0].text;
}

async function viaGenai() {
  const { GoogleGenAI } = require("@google/genai");
  const client = new GoogleGenAI({ apiKey: process.env.KEY, httpOptions: { baseUrl: server } });
  return (await client.models.generateContent({ model: "genai-plain.0", contents: prompt })).text;
}

async function viaOllama() {
  const { Ollama } = require("ollama");
  return (await new Ollama({ host: server }).chat({ model: "ollama-plain.0", messages })).message.content;
}

async function viaFetch() {
  const response = await fetch(url, { method: "POST", headers, body: body("fetch") });
  return `${response.url === url} ${text(await response.json())}`;
}

async function viaFetchRequest() {
  const request = new Request(url, { method: "POST", headers, body: body("request") });
  return text(await (await fetch(request)).json());
}

async function viaFetchBodyStream() {
  const stream = new Blob([body("blob")]).stream();
  return text(await (await fetch(new URL(url), { method: "POST", headers, body: stream, duplex: "half" })).json());
}

const readRequest = (send) =>
  new Promise((resolve, reject) => {
    const request = send((response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve(JSON.parse(Buffer.concat(chunks))));
    });
    request.on("error", reject);
  }).then(text);

async function viaHttp() {
  const { hostname, port, pathname } = new URL(url);
  const agent = new http.Agent({ keepAlive: true });
  return readRequest((done) => {
    const request = http.request({ hostname, port, path: pathname, method: "POST", headers, agent }, done);
    request.write(body("http"));
    request.end();
    return request;
  });
}

async function viaHttpByName() {
  return readRequest((done) => requestByName(url, { method: "POST", headers }, done).end(body("named")));
}

async function viaAxios() {
  const axios = require("axios");
  return text((await axios.post(url, body("axios"), { headers })).data);
}

async function viaAxiosFetch() {
  const axios = require("axios");
  return text((await axios.post(url, body("axiosfetch"), { headers, adapter: "fetch" })).data);
}

async function viaUndici() {
  const undici = require("undici");
  return text(await (await undici.request(url, { method: "POST", headers, body: body("undici") })).body.json());
}

async function viaUndiciPool() {
  const { Pool } = require("undici");
  const pool = new Pool(server, { connections: 1 });
  const ask = () => pool.request({ path: "/v1/chat/completions", method: "POST", headers, body: body("pool") });
  const answers = await Promise.all([ask(), ask()]);
  const texts = await Promise.all(answers.map(async (answer) => text(await answer.body.json())));
  await pool.close();
  return texts.join(" ");
}

async function viaUndiciFetch() {
  const undici = require("undici");
  const dispatcher = new undici.Agent({ headersTimeout: 60_000 });
  return text(await (await undici.fetch(url, { method: "POST", headers, body: body("fetch7"), dispatcher })).json());
}

async function viaWorker() {
  const script = `
    const { parentPort, workerData } = require("node:worker_threads");
    fetch(workerData.url, workerData.init).then((response) => response.json()).then((answer) => parentPort.postMessage(answer));
  `;
  const workerData = { url, init: { method: "POST", headers, body: body("worker") } };
  return new Promise((resolve, reject) => {
    const worker = new Worker(script, { eval: true, workerData });
    worker.on("message", resolve);
    worker.on("error", reject);
  }).then(text);
}

const ways = {
  viaOpenai, viaOpenaiStream, viaAnthropic, viaGenai, viaOllama, viaFetch, viaFetchRequest, viaFetchBodyStream, viaHttp,
  viaHttpByName, viaAxios, viaAxiosFetch, viaUndici, viaUndiciPool, viaUndiciFetch, viaWorker,
};

for (const [name, ask] of Object.entries(ways)) {
  try {
    console.log(`${name}: ${await ask()}`);
  } catch (error) {
    console.log(`${name}: ${error.name} ${error.message} ${error.cause ?? ""}`);
  }
}
