// The client of the scenarios: an editor on the SDK with files and terminals in memory and answers decided beforehand.

import { client, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";

export class Editor {
  files = {}; // path -> content
  commands = {}; // command -> {output, exitCode, signal, endless}
  answers = {}; // toolCallId -> optionId, "cancelled", or a function that returns one of them
  updates = []; // every session/update that the SDK let through
  ends = []; // {session, stop_reason, error} of each prompt, in the order of the prompts
  #waiting = [];
  #terminals = new Map();

  constructor(wire, extensions = {}) {
    const app = client({ name: "interop-editor" })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params);
        this.#waiting = this.#waiting.filter((w) => !w.wanted(params.update) || w.resolve(params.update));
      })
      .onRequest(methods.client.session.requestPermission, async ({ params }) => {
        const answer = this.answers[params.toolCall.toolCallId];
        const optionId = typeof answer === "function" ? await answer(params) : answer;
        if (optionId === "cancelled") return { outcome: { outcome: "cancelled" } };
        return { outcome: { outcome: "selected", optionId } };
      })
      .onRequest(methods.client.fs.readTextFile, ({ params }) => {
        if (!(params.path in this.files)) throw RequestError.resourceNotFound(params.path);
        const lines = this.files[params.path].split(/(?<=\n)/);
        const from = (params.line ?? 1) - 1;
        return { content: lines.slice(from, from + (params.limit ?? lines.length)).join("") };
      })
      .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
        this.files[params.path] = params.content;
        return {};
      })
      .onRequest(methods.client.terminal.create, ({ params }) => {
        const terminalId = `term_${this.#terminals.size + 1}`;
        this.#terminals.set(terminalId, new Terminal(this.commands[params.command], params.outputByteLimit));
        return { terminalId };
      })
      .onRequest(methods.client.terminal.output, ({ params }) => this.#terminal(params).output())
      .onRequest(methods.client.terminal.waitForExit, ({ params }) => this.#terminal(params).ended)
      .onRequest(methods.client.terminal.kill, ({ params }) => this.#terminal(params).kill())
      .onRequest(methods.client.terminal.release, ({ params }) => this.#terminal(params).kill())
      .onRequest(methods.client.elicitation.create, () => ({ action: "accept", content: { branch: "main" } }))
      .onNotification(methods.client.elicitation.complete, () => {});
    for (const [method, handler] of Object.entries(extensions)) {
      app.onRequest(method, (params) => params, ({ params }) => handler(params));
    }
    this.connection = app.connect(ndJsonStream(wire.output, wire.input));
    this.agent = this.connection.agent;
  }

  #terminal({ terminalId }) {
    const terminal = this.#terminals.get(terminalId);
    if (!terminal) throw RequestError.resourceNotFound(terminalId);
    return terminal;
  }

  initialize() {
    return this.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientInfo: { name: "interop-editor", title: "Interop editor", version: "1.0.0" },
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        terminal: true,
        session: { compaction: {}, configOptions: { boolean: {} }, notices: {} },
        elicitation: { form: {}, url: {} },
      },
    });
  }

  async open(cwd = "/home/dev/demo") {
    return (await this.agent.request(methods.agent.session.new, { cwd, mcpServers: [] })).sessionId;
  }

  load(sessionId, cwd = "/home/dev/demo") {
    return this.agent.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  }

  resume(sessionId, cwd = "/home/dev/demo") {
    return this.agent.request(methods.agent.session.resume, { sessionId, cwd });
  }

  close(sessionId) {
    return this.agent.request(methods.agent.session.close, { sessionId });
  }

  // Sends a prompt, a string or content blocks, and waits for its end, whatever it is.
  async prompt(sessionId, prompt, { meta, ...options } = {}) {
    const end = { session: sessionId, stop_reason: null, error: null };
    this.ends.push(end);
    const blocks = typeof prompt === "string" ? [{ type: "text", text: prompt }] : prompt;
    const params = { sessionId, prompt: blocks, ...(meta && { _meta: meta }) };
    try {
      end.stop_reason = (await this.agent.request(methods.agent.session.prompt, params, options)).stopReason;
    } catch (error) {
      // Without a code it is the end of the connection.
      if (error instanceof RequestError) end.error = { code: error.code, message: error.message };
    }
    return end;
  }

  cancel(sessionId) {
    return this.agent.notify(methods.agent.session.cancel, { sessionId });
  }

  // The next update that is wanted.
  until(wanted) {
    return new Promise((resolve) => this.#waiting.push({ wanted, resolve }));
  }
}

class Terminal {
  constructor(command, limit) {
    this.command = command;
    this.limit = limit ?? Infinity;
    this.ended = new Promise((resolve) => (this.end = resolve));
    if (!command.endless) this.#exit({ exitCode: command.exitCode ?? null, signal: command.signal ?? null });
  }

  #exit(status) {
    if (this.status) return;
    this.status = status;
    this.end(status);
  }

  output() {
    const { output } = this.command; // ASCII, so characters are bytes
    return {
      output: output.slice(Math.max(0, output.length - this.limit)),
      truncated: output.length > this.limit,
      ...(this.status && { exitStatus: this.status }),
    };
  }

  kill() {
    this.#exit({ exitCode: null, signal: "SIGKILL" });
    return {};
  }
}
