// editor.mjs COMMAND... starts COMMAND as its agent, as editors do by their settings, and gives it one prompt.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exit = new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));

const app = client({ name: "editor" })
  .onNotification(methods.client.session.update, ({ params }) => {
    const { sessionUpdate, content } = params.update;
    if (sessionUpdate === "agent_message_chunk") console.log(content.text);
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId }, // the user says yes
  }))
  .onRequest(methods.client.fs.writeTextFile, () => ({})); // a real one writes
const { agent } = app.connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));

await agent.request(methods.agent.initialize, {
  protocolVersion: PROTOCOL_VERSION,
  clientInfo: { name: "editor", version: "1.0.0" },
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: true } },
});
const { sessionId } = await agent.request(methods.agent.session.new, { cwd: "/garden", mcpServers: [] });
await agent.request(methods.agent.session.prompt, {
  sessionId,
  prompt: [{ type: "text", text: "Put roses on the list of plants." }],
});
child.stdin.end();
process.exitCode = await exit;
