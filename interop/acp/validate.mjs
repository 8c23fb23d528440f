// validate.mjs FILE...
// Checks every message of ACP traces against the published v1 schema, and what the schema cannot say about the
// order of messages. Exit 1 with the first problems of each file.

import { basename } from "node:path";
import { errorObject, fault, methods } from "./schema.mjs";
import { readTrace, Requests } from "./trace.mjs";
import { toAgent } from "./wire.mjs";

const shown = 5; // problems of a file

// Updates that an agent may send only to a client that asked for them: the key in clientCapabilities.session.
const optional = { compaction_update: "compaction", compaction_summary_chunk: "compaction", notice: "notices" };

function check(entries) {
  const problems = [];
  const requests = new Requests();
  const sessions = new Set();
  const count = { requests: 0, responses: 0, notifications: 0, updates: 0, extensions: 0 };
  let capabilities; // those of the client, once it has sent initialize

  const checkMessage = (entry, say) => {
    const { message, direction } = entry;
    if (message.jsonrpc !== "2.0") return say("jsonrpc is not 2.0");
    const isCall = "method" in message;
    const keys = isCall ? ["jsonrpc", "id", "method", "params"] : ["jsonrpc", "id", "result", "error"];
    const strange = Object.keys(message).filter((key) => !keys.includes(key));
    if (strange.length) return say(`keys that JSON-RPC does not have: ${strange.join(", ")}`);
    if ("id" in message && !["number", "string"].includes(typeof message.id) && message.id !== null) return say("id is of a wrong type");
    const request = requests.note(entry);

    if (!isCall) {
      count.responses++;
      if (!("id" in message) || "result" in message === "error" in message) return say("neither call nor response");
      if (!request) return say(`no request of the other side waits for id ${message.id}`);
      const { method } = request.message;
      if ("error" in message) return say(fault(errorObject, message.error), "error");
      const known = methods.get(method);
      if (!known) return undefined; // an extension
      say(fault(known.response, message.result), `result of ${method}`);
      answered(request.message, message.result, say);
      return undefined;
    }

    if (message.method.startsWith("_")) {
      count.extensions++;
      return undefined;
    }
    const known = methods.get(message.method);
    if (!known) return say(`no method ${message.method} in v1`);
    const receiver = direction === toAgent ? "agent" : "client";
    if (direction && known.side !== "protocol" && known.side !== receiver) return say(`${message.method} goes to the ${known.side}`);
    const validate = "id" in message ? known.request : known.notification;
    if (!validate) return say(`${message.method} is ${"id" in message ? "a notification" : "a request"}`);
    count["id" in message ? "requests" : "notifications"]++;
    const why = fault(validate, message.params ?? {});
    if (why) return say(why, `params of ${message.method}`);
    called(message, receiver, say);
    return undefined;
  };

  const called = ({ method, params }, receiver, say) => {
    if (method === "initialize") capabilities = params.clientCapabilities ?? {};
    if (["session/load", "session/resume"].includes(method)) sessions.add(params.sessionId);
    // A trace that does not begin at the beginning may lack what follows.
    if (capabilities && receiver === "client" && params?.sessionId && !sessions.has(params.sessionId)) {
      say(`${method} for a session that was not opened`);
    }
    if (method !== "session/update") return;
    count.updates++;
    const needs = optional[params.update.sessionUpdate];
    if (capabilities && needs && !capabilities.session?.[needs]) {
      say(`${params.update.sessionUpdate}, but the client has no capability session.${needs}`);
    }
  };

  const answered = ({ method, params }, result, say) => {
    if (method === "session/new") sessions.add(result?.sessionId);
    if (method === "session/request_permission" && result?.outcome?.outcome === "selected") {
      const offered = params.options.map((option) => option.optionId);
      if (!offered.includes(result.outcome.optionId)) say("the chosen option was not offered");
    }
  };

  for (const entry of entries) {
    checkMessage(entry, (why, what) => {
      if (why) problems.push(`line ${entry.line}: ${what ? `${what}: ` : ""}${why}`);
    });
  }
  return { problems, count, open: requests.size };
}

const files = process.argv.slice(2);
if (!files.length) {
  console.error("usage: validate.mjs FILE...");
  process.exit(2);
}
for (const file of files) {
  let entries;
  try {
    entries = readTrace(file);
    if (!entries.length) throw new Error("no messages");
  } catch (error) {
    console.error(`${file}: ${error.message}`);
    process.exitCode = 1;
    continue;
  }
  const { problems, count, open } = check(entries);
  for (const problem of problems.slice(0, shown)) console.error(`${file}: ${problem}`);
  if (problems.length > shown) console.error(`${file}: ${problems.length - shown} more`);
  if (problems.length) process.exitCode = 1;
  else {
    const counts = Object.entries(count).map(([what, n]) => `${n} ${what}`);
    console.log(`${basename(file)}: ok, ${counts.join(", ")}, ${open} unanswered`);
  }
}
