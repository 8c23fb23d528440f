// The rows of the agent guide: canonical JSON (one session with its messages and their parts) and JSONL (one row a line).

import { readFileSync } from "node:fs";

// The messages of a file in its order: [{where, message, parts: [{where, row, part}]}], metadata_json and data_json parsed.
export function readMessages(file) {
  const content = readFileSync(file, "utf8");
  return isJSONL(content) ? fromJSONL(file, content) : fromJSON(file, content);
}

// A JSONL file has a whole row in its first line.
function isJSONL(content) {
  try {
    return typeof JSON.parse(content.slice(0, content.indexOf("\n") >>> 0)).type === "string";
  } catch {
    return false;
  }
}

function fromJSONL(file, content) {
  const messages = new Map();
  let session;
  content.split("\n").forEach((line, i) => {
    if (!line) return;
    const where = `${file}:${i + 1}`;
    const { type, data } = JSON.parse(line);
    session ||= type === "session";
    if (type === "message") messages.set(data.id, messageOf(where, data));
    if (type === "part") {
      const message = messages.get(data.message_id);
      if (!message) throw new Error(`${where}: part of a message that is not above it`);
      message.parts.push(partOf(where, data));
    }
  });
  if (!session) throw new Error("no line of type session");
  return [...messages.values()];
}

function fromJSON(file, content) {
  const sessions = [JSON.parse(content)].flat();
  return sessions.flatMap((session, s) => {
    if (!session.session || !session.messages) throw new Error("no session with messages");
    return session.messages.map(({ message, parts }, m) => {
      const where = `${file}: ${sessions.length > 1 ? `session ${s} ` : ""}message ${m}`;
      return { ...messageOf(where, message), parts: parts.map((row, p) => partOf(`${where} part ${p}`, row)) };
    });
  });
}

function messageOf(where, row) {
  return { where, row, metadata: parsed(row, "metadata"), parts: [] };
}

function partOf(where, row) {
  return { where, row, part: parsed(row, "data") };
}

// The column as an object; some write it parsed and without the suffix.
function parsed(row, column) {
  const value = row[column + "_json"] ?? row[column];
  return typeof value === "string" ? JSON.parse(value) : value;
}

const start = Date.parse("2026-01-05T10:00:00Z");

// Rows for messages {id, role, metadata, parts}, the way the guide stores them. Times and ids are made up, without a clock.
export function toRows(name, messages) {
  let ticks = 0;
  const now = () => start + 10 * ticks++;
  const id = (prefix) => `${prefix}_${(start * 4096 + ticks).toString(16).slice(-12)}${name}${String(ticks).padStart(12, "0")}`;
  const createdAt = now();
  const session = { id: id("ses"), agent: "ai-sdk-interop" };
  const rows = messages.map(({ role, metadata, parts }) => {
    const at = now();
    const message = { id: id("msg"), session_id: session.id, role, metadata_json: JSON.stringify(metadata), created_at: at };
    return {
      message,
      parts: parts.map((part, index) => {
        const at = now();
        return {
          id: id("prt"),
          message_id: message.id,
          session_id: session.id,
          index,
          type: part.type,
          data_json: JSON.stringify(part),
          tool_call_id: part.toolCallId ?? null,
          tool_state: part.toolCallId ? part.state : null,
          created_at: at,
          updated_at: at,
        };
      }),
    };
  });
  for (const { message, parts } of rows) message.updated_at = parts.at(-1)?.updated_at ?? message.created_at;

  const usages = messages.map((message) => message.metadata.usage).filter(Boolean);
  const sum = (key) => usages.reduce((total, usage) => total + usage[key], 0);
  const rollups = {
    prompt_tokens: sum("input"),
    completion_tokens: sum("output"),
    reasoning_tokens: sum("reasoning"),
    cache_read: sum("cache_read"),
    cache_write: sum("cache_write"),
  };
  return {
    session: {
      ...session,
      workspace_root: "/home/dev/demo",
      model_json: JSON.stringify({ provider_id: "example", model_id: "large-1" }),
      parent_id: null,
      parent_message_id: null,
      permissions_json: "[]",
      metadata_json: "{}",
      ...rollups,
      total_tokens: Object.values(rollups).reduce((a, b) => a + b, 0),
      cost_usd: 0,
      created_at: createdAt,
      updated_at: rows.at(-1).message.updated_at,
      archived_at: null,
    },
    messages: rows,
  };
}

export function toJSON(session) {
  return JSON.stringify(session, null, 1) + "\n";
}

export function toJSONL({ session, messages }) {
  const line = (type, data) => JSON.stringify({ type, data }) + "\n";
  return (
    line("session", session) +
    messages.map(({ message, parts }) => line("message", message) + parts.map((part) => line("part", part)).join("")).join("")
  );
}
