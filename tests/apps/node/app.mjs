// An application on Node.js: it asks plainly, as a stream, and with a tool, and prints what it got, a line each.
// Where the provider is, the SDK reads from OPENAI_BASE_URL.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MODULES}/`);
const OpenAI = require("openai").OpenAI;
const client = new OpenAI({ apiKey: process.env.KEY, maxRetries: 0 });
const messages = [{ role: "user", content: "What is the capital of France?" }];
const tools = [{ type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } }];

const say = (value) => console.log(JSON.stringify(value));

say(await client.chat.completions.create({ model: "node-plain.0", messages }));

const stream = await client.chat.completions.create({ model: "node-stream.0", messages, stream: true });
for await (const chunk of stream) say(chunk);

const first = await client.chat.completions.create({ model: "node-tools.0", messages, tools });
const called = first.choices[0].message;
const result = { role: "tool", tool_call_id: called.tool_calls[0].id, content: "Paris" };
say(first);
say(await client.chat.completions.create({ model: "node-tools.0", messages: [...messages, called, result], tools }));

try {
  await client.chat.completions.create({ model: "node-error.0", messages });
} catch (error) {
  say({ name: error.constructor.name, status: error.status, message: error.message });
}
