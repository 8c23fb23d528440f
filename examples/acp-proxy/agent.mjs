// An agent on the official SDK of the Agent Client Protocol, with a script in the place of a model: it says what it
// thinks, asks whether it may write, and writes.

import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const text = (value) => ({ type: "text", text: value });

const app = agent({ name: "gardener" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "gardener", title: "Gardener", version: "1.0.0" },
    agentCapabilities: {},
    authMethods: [],
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: "garden-1" }))
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const update = (value) => client.notify(methods.client.session.update, { sessionId, update: value });
    await update({ sessionUpdate: "agent_thought_chunk", content: text("The list of plants is the place for it.") });
    const toolCall = {
      toolCallId: "call_1",
      title: "Write plants.md",
      kind: "edit",
      rawInput: { path: "/garden/plants.md", text: "roses" },
    };
    await update({ sessionUpdate: "tool_call", status: "pending", ...toolCall });
    const { outcome } = await client.request(methods.client.session.requestPermission, {
      sessionId,
      toolCall,
      options: [
        { optionId: "yes", name: "Allow", kind: "allow_once" },
        { optionId: "no", name: "Reject", kind: "reject_once" },
      ],
    });
    if (outcome.outcome !== "selected" || outcome.optionId !== "yes") {
      await update({ sessionUpdate: "tool_call_update", toolCallId: "call_1", status: "failed" });
      return { stopReason: "refusal" };
    }
    await client.request(methods.client.fs.writeTextFile, {
      sessionId,
      path: "/garden/plants.md",
      content: "roses\n",
    });
    await update({
      sessionUpdate: "tool_call_update",
      toolCallId: "call_1",
      status: "completed",
      content: [{ type: "content", content: text("1 line written") }],
    });
    await update({ sessionUpdate: "agent_message_chunk", content: text("Roses are on the list.") });
    return { stopReason: "end_turn" };
  })
  .onNotification(methods.agent.session.cancel, () => {});

await app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
