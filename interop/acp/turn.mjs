// The hands of a scripted agent during one prompt: every method first notes in the ledger what is done,
// then does it through the SDK.

import { methods, RequestError } from "@agentclientprotocol/sdk";

export const text = (value) => ({ type: "text", text: value });
export const contentOf = (value) => ({ type: "content", content: text(value) });

// The four kinds of answers that a user can give.
export const fourOptions = [
  { optionId: "yes", name: "Allow once", kind: "allow_once" },
  { optionId: "yes-always", name: "Always allow", kind: "allow_always" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
  { optionId: "no-always", name: "Never allow", kind: "reject_always" },
];

export class Turn {
  // Resolves when the client sends session/cancel.
  cancelled;
  #cancel;
  #last = null;

  constructor(client, session, prompt, params, signal, write) {
    this.client = client;
    this.session = session;
    this.prompt = prompt;
    this.params = params;
    this.signal = signal;
    this.write = write; // bytes to stdout, around the SDK
    this.cancelled = new Promise((resolve) => (this.#cancel = resolve));
  }

  cancel() {
    this.prompt.cancelled = true;
    this.#cancel();
  }

  async update(update) {
    await this.client.notify(methods.client.session.update, { sessionId: this.session.id, update });
  }

  // Any update but a chunk ends the message that was being said, unless the message has an id.
  async #other(update) {
    this.#last = null;
    await this.update(update);
  }

  async #chunk(kind, role, content, messageId) {
    const added = content.type === "text" ? content.text : "";
    if (role === "agent") this.prompt.agent_text += added;
    if (role === "thought") this.prompt.thought_text += added;
    const key = messageId ?? kind;
    const known = messageId && this.prompt.messages.find((m) => m.message_id === messageId);
    if (known) {
      known.text += added;
      known.blocks.push(content.type);
    } else if (!messageId && this.#last === key) {
      const open = this.prompt.messages.at(-1);
      open.text += added;
      open.blocks.push(content.type);
    } else {
      this.prompt.messages.push({ role, message_id: messageId ?? null, text: added, blocks: [content.type] });
    }
    this.#last = key;
    await this.update({ sessionUpdate: kind, ...(messageId && { messageId }), content });
  }

  async #chunks(kind, role, contents, messageId) {
    for (const content of [contents].flat()) {
      await this.#chunk(kind, role, typeof content === "string" ? text(content) : content, messageId);
    }
  }

  // A chunk as another agent might spell it; line has to mean what say(value, messageId) would send.
  async sayRaw(line, value, messageId) {
    this.update = () => this.write(Buffer.from(line));
    await this.say(value, messageId);
    delete this.update;
  }

  // One chunk for each of contents: strings or content blocks.
  say(contents, messageId) {
    return this.#chunks("agent_message_chunk", "agent", contents, messageId);
  }

  think(contents, messageId) {
    return this.#chunks("agent_thought_chunk", "thought", contents, messageId);
  }

  // What the user typed while the agent was working.
  echo(contents, messageId) {
    return this.#chunks("user_message_chunk", "user", contents, messageId);
  }

  plan(...entries) {
    this.prompt.plan = entries.map(([content, priority, status]) => ({ content, priority, status }));
    return this.#other({ sessionUpdate: "plan", entries: this.prompt.plan });
  }

  commands(...availableCommands) {
    this.session.commands = availableCommands.map((command) => command.name);
    return this.#other({ sessionUpdate: "available_commands_update", availableCommands });
  }

  mode(currentModeId) {
    this.session.mode = currentModeId;
    return this.#other({ sessionUpdate: "current_mode_update", currentModeId });
  }

  config(configOptions) {
    this.session.config = configOptions.map(({ id, currentValue }) => ({ id, value: currentValue }));
    return this.#other({ sessionUpdate: "config_option_update", configOptions });
  }

  title(title, updatedAt) {
    this.session.title = title;
    return this.#other({ sessionUpdate: "session_info_update", title, ...(updatedAt && { updatedAt }) });
  }

  usage(used, size, cost) {
    this.prompt.usage = { used, size, cost: cost ?? null };
    return this.#other({ sessionUpdate: "usage_update", used, size, ...(cost && { cost }) });
  }

  notice(severity, title, description) {
    this.prompt.notices.push({ severity, title, description: description ?? null });
    return this.#other({ sessionUpdate: "notice", severity, title, ...(description && { description }) });
  }

  // A compaction under way; finish or summarise it.
  async compaction(compactionId) {
    const entry = { id: compactionId, status: "in_progress", summary: "", error: null };
    this.prompt.compactions.push(entry);
    await this.#other({ sessionUpdate: "compaction_update", compactionId, status: "in_progress" });
    return {
      chunk: (value) => {
        entry.summary += value;
        return this.#other({ sessionUpdate: "compaction_summary_chunk", compactionId, content: text(value) });
      },
      finish: (status, { summary, error } = {}) => {
        entry.status = status;
        if (summary !== undefined) entry.summary = summary;
        entry.error = error ?? null;
        return this.#other({
          sessionUpdate: "compaction_update",
          compactionId,
          status,
          ...(summary !== undefined && { summary: [text(summary)] }),
          ...(error && { error }),
        });
      },
    };
  }

  // A new tool call, announced by one message. Statuses later are set by the methods of ToolCall.
  async tool(id, fields) {
    const call = new ToolCall(this, id, fields);
    await this.#other({ sessionUpdate: "tool_call", toolCallId: id, ...fields });
    return call;
  }

  // A tool call of which the client hears in another way than by a tool_call message.
  unannouncedTool(id, fields) {
    return new ToolCall(this, id, fields);
  }

  updateTool(update) {
    return this.#other({ sessionUpdate: "tool_call_update", ...update });
  }

  async readFile(call, path, range = {}) {
    const entry = { op: "read", tool_call_id: call?.entry.id ?? null, path, ...range, content: null, error: null };
    this.prompt.fs.push(entry);
    entry.content = await this.#ask(entry, methods.client.fs.readTextFile, { path, ...range }, (r) => r.content);
    return entry.content;
  }

  async writeFile(call, path, content) {
    const entry = { op: "write", tool_call_id: call?.entry.id ?? null, path, content, error: null };
    this.prompt.fs.push(entry);
    await this.#ask(entry, methods.client.fs.writeTextFile, { path, content });
  }

  // A request to the client whose refusal goes to entry.error.
  async #ask(entry, method, params, pick = () => null) {
    try {
      return pick(await this.client.request(method, { sessionId: this.session.id, ...params }));
    } catch (error) {
      entry.error = { code: error.code, message: error.message };
      return null;
    }
  }

  async terminal(call, params) {
    const handle = await this.client.createTerminal({ sessionId: this.session.id, ...params });
    const entry = {
      id: handle.id,
      tool_call_id: call?.entry.id ?? null,
      command: params.command,
      args: params.args ?? [],
      output: null,
      truncated: null,
      exit_code: null,
      signal: null,
      killed: false,
      released: false,
    };
    this.prompt.terminals.push(entry);
    return {
      id: handle.id,
      output: async () => {
        const now = await handle.currentOutput();
        entry.output = now.output;
        entry.truncated = now.truncated;
        return now;
      },
      wait: async () => {
        const exit = await handle.waitForExit();
        entry.exit_code = exit.exitCode ?? null;
        entry.signal = exit.signal ?? null;
        return exit;
      },
      kill: async () => {
        entry.killed = true;
        await handle.kill();
      },
      release: async () => {
        entry.released = true;
        await handle.release();
      },
    };
  }

  // Asks the user. Returns the kind of the chosen option, or "cancelled".
  async permission(toolCall, options = fourOptions) {
    const entry = {
      tool_call_id: toolCall.toolCallId,
      options: options.map((option) => option.optionId),
      outcome: null,
      option_id: null,
      kind: null,
    };
    this.prompt.permissions.push(entry);
    const { outcome } = await this.client.request(methods.client.session.requestPermission, {
      sessionId: this.session.id,
      toolCall,
      options,
    });
    entry.outcome = outcome.outcome;
    if (outcome.outcome === "selected") {
      entry.option_id = outcome.optionId;
      entry.kind = options.find((option) => option.optionId === outcome.optionId).kind;
    }
    return entry.kind ?? "cancelled";
  }

  fail(code, message, data) {
    return new RequestError(code, message, data);
  }
}

export class ToolCall {
  constructor(turn, id, fields) {
    this.turn = turn;
    this.entry = {
      id,
      name: fields.name ?? null,
      title: fields.title ?? null,
      kind: fields.kind ?? "other",
      status: fields.status ?? "pending",
      statuses: [fields.status ?? "pending"],
      input: fields.rawInput ?? null,
      output: fields.rawOutput ?? null,
      content: fields.content ?? [],
      locations: fields.locations ?? [],
    };
    turn.prompt.tool_calls.push(this.entry);
  }

  // Fields as in a tool_call_update; null leaves a field as it was, like absence.
  async update(fields) {
    const columns = {
      name: "name",
      title: "title",
      kind: "kind",
      status: "status",
      rawInput: "input",
      rawOutput: "output",
      content: "content",
      locations: "locations",
    };
    for (const [key, column] of Object.entries(columns)) {
      if (fields[key] != null) this.entry[column] = fields[key];
    }
    if (fields.status != null && fields.status !== this.entry.statuses.at(-1)) this.entry.statuses.push(fields.status);
    await this.turn.updateTool({ toolCallId: this.entry.id, ...fields });
  }

  start(fields) {
    return this.update({ status: "in_progress", ...fields });
  }

  complete(output, content) {
    return this.update({
      status: "completed",
      ...(content && { content }),
      ...(output !== undefined && { rawOutput: output }),
    });
  }

  failed(message, output) {
    return this.update({
      status: "failed",
      content: [contentOf(message)],
      ...(output !== undefined && { rawOutput: output }),
    });
  }

  permission(options, fields = {}) {
    return this.turn.permission({ toolCallId: this.entry.id, ...fields }, options);
  }
}
