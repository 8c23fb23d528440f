// What the agent did, written down by the agent as it did it, before anything is put on the wire.
// It becomes <scenario>.tree.json: what a reader of the capture has to find.

import { writeFileSync } from "node:fs";

export class Ledger {
  #tree;
  #sessions = new Map();

  constructor(scenario, description) {
    this.#tree = { scenario, description, sessions: [] };
  }

  // The session of that id; a new one is in the state before its first prompt.
  session(id, cwd = null) {
    let session = this.#sessions.get(id);
    if (session) {
      session.cwd ??= cwd;
    } else {
      session = {
        id,
        cwd,
        loaded: false,
        resumed: false,
        closed: false,
        deleted: false,
        title: null,
        mode: null,
        commands: [],
        config: [],
        history: [],
        history_tool_calls: [],
        prompts: [],
      };
      this.#sessions.set(id, session);
      this.#tree.sessions.push(session);
    }
    return session;
  }

  write(file) {
    writeFileSync(file, JSON.stringify(this.#tree, null, 1) + "\n");
  }
}

// The entry of a prompt that has just arrived. stop_reason and error both stay null when the agent dies first.
export function newPrompt(params) {
  const texts = params.prompt.filter((block) => block.type === "text").map((block) => block.text);
  return {
    text: texts.join(""),
    blocks: params.prompt.map((block) => block.type),
    traceparent: params._meta?.traceparent ?? null,
    cancelled: false,
    stop_reason: null,
    error: null,
    agent_text: "",
    thought_text: "",
    messages: [],
    tool_calls: [],
    permissions: [],
    fs: [],
    terminals: [],
    plan: null,
    notices: [],
    usage: null,
    compactions: [],
  };
}
