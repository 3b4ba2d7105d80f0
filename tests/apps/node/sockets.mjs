// Every way in which Node.js opens a WebSocket to a model: a line for each with what it heard.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MODULES}/`);
const { SERVER, TLS_SERVER, KEY } = process.env;
const prompt = process.env.PROMPT || "Be kind.";
const update = JSON.stringify({ type: "session.update", session: { type: "realtime", instructions: prompt } });
const ask = JSON.stringify({ type: "response.create" });

// The realtime API, through anything with the interface of a browser's WebSocket.
function listen(socket) {
  return new Promise((resolve, reject) => {
    const words = [];
    socket.onopen = () => [update, ask].forEach((text) => socket.send(text));
    socket.onerror = (event) => reject(new Error(event.message || "it failed"));
    socket.onclose = (event) => reject(new Error(`closed: ${event.code}`));
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      if (event.type === "response.output_text.delta") words.push(event.delta);
      if (event.type !== "response.done") return;
      socket.onclose = () => resolve(words.join(""));
      socket.close(1000);
    };
  });
}

async function viaOpenai() {
  const { OpenAI } = require("openai");
  const { OpenAIRealtimeWS } = require("openai/realtime/ws");
  const client = new OpenAI({ apiKey: KEY, baseURL: `${TLS_SERVER}/v1` });
  const realtime = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);
  realtime.on("error", () => {}); // What ends it is seen below.
  return listen(realtime.socket);
}

async function viaWs() {
  const WebSocket = require("ws");
  const headers = { Authorization: `Bearer ${KEY}` };
  return listen(new WebSocket(`${SERVER}/v1/realtime?model=ws`, { headers }));
}

async function viaUndici() {
  const { WebSocket } = require("undici");
  return listen(new WebSocket(`${SERVER}/v1/realtime?model=undici`, ["realtime", `openai-insecure-api-key.${KEY}`]));
}

async function viaBuiltIn() {
  return listen(new WebSocket(`${SERVER}/v1/realtime?model=built-in`));
}

const ways = [viaOpenai, viaWs, viaUndici, ...(typeof WebSocket === "function" ? [viaBuiltIn] : [])];
for (const way of ways) {
  const heard = await way().catch((error) => `${error.name}: ${error.message}`.split("\n")[0]);
  console.log(`${way.name} ${heard}`);
}
