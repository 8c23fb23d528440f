// Both halves of every scenario. agent.prompts has the agent's script of each prompt, by the text of the prompt;
// it returns the stop reason or throws the error. client.play says what the user does; client.holds is what the
// editor has: files, commands, and answers by tool call id.

import { contentOf, fourOptions, text } from "./turn.mjs";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const wav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

export function find(name) {
  const scenario = scenarios.find((s) => s.name === name);
  if (!scenario) throw new Error(`no scenario ${name}`);
  return scenario;
}

// Opens a session and sends prompts one after the other.
const prompts = (...list) => async (editor) => {
  const session = await editor.open();
  for (const prompt of list) await editor.prompt(session, prompt);
};

// A turn of one message.
const answer = (reply) => async (turn) => {
  await turn.say(reply);
  return "end_turn";
};

export const scenarios = [
  {
    name: "messages",
    what: "text and thoughts with and without messageId, several chunks, messages that alternate; a prompt with a traceparent",
    agent: {
      prompts: {
        "With ids.": async (turn) => {
          await turn.think(["The user wants ", "ids."], "msg_t1");
          await turn.say(["Here ", "you ", "are."], "msg_a1");
          await turn.say("A second message.", "msg_a2");
          await turn.think("Done thinking.", "msg_t2");
          await turn.say(" And a late end of the second.", "msg_a2");
          return "end_turn";
        },
        "Without ids.": async (turn) => {
          await turn.say(["One ", "message."]);
          await turn.think("A thought between.");
          await turn.say("Another message.");
          await turn.plan(["Cut the run", "low", "completed"]);
          await turn.say("A third message.");
          return "end_turn";
        },
        "Mixed.": async (turn) => {
          await turn.say("No id. ");
          await turn.say("An id.", "msg_a3");
          await turn.say("No id again.");
          return "end_turn";
        },
        "Nothing.": async () => "end_turn",
        "Ünïcode \u2028 \"quotes\" \\ and a\nnew line 🦀": answer("Grüße \u2028 \u0000 \t 🦀"),
      },
    },
    client: {
      play: async (editor) => {
        const session = await editor.open();
        const traceparent = "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01";
        await editor.prompt(session, "With ids.", { meta: { traceparent, tracestate: "vendor=1", "example.org/note": 1 } });
        await editor.prompt(session, "Without ids.");
        await editor.prompt(session, "Mixed.");
        await editor.prompt(session, "Nothing.");
        await editor.prompt(session, "Ünïcode \u2028 \"quotes\" \\ and a\nnew line 🦀");
      },
    },
  },
  {
    name: "content",
    what: "images, audio, links and embedded resources in prompts and in messages; what the user types meanwhile comes back as an echo",
    agent: {
      prompts: {
        "Look at this.": async (turn) => {
          await turn.say(
            [
              "An image: ",
              { type: "image", data: png, mimeType: "image/png" },
              { type: "audio", data: wav, mimeType: "audio/wav" },
              { type: "resource_link", uri: "https://example.org/range", name: "range", title: "Ranges", size: 10 },
              { type: "resource", resource: { uri: "file:///home/dev/demo/a.txt", mimeType: "text/plain", text: "a\n" } },
              { type: "resource", resource: { uri: "file:///home/dev/demo/b.bin", blob: "AAEC" } },
              { ...text("for the user only"), annotations: { audience: ["user"], priority: 0.5 } },
            ],
            "msg_c1",
          );
          await turn.echo("Also check the other one.", "msg_u1");
          await turn.say("I will.", "msg_c2");
          return "end_turn";
        },
        "": answer("Only a picture."),
      },
    },
    client: {
      play: prompts(
        [
          text("Look at "),
          { type: "image", data: png, mimeType: "image/png", uri: "file:///home/dev/demo/dot.png" },
          text("this."),
          { type: "resource_link", uri: "file:///home/dev/demo/src/range.rs", name: "range.rs", mimeType: "text/x-rust" },
          { type: "resource", resource: { uri: "file:///home/dev/demo/notes.md", mimeType: "text/markdown", text: "# Notes\n" } },
          { type: "audio", data: wav, mimeType: "audio/wav" },
        ],
        [{ type: "image", data: png, mimeType: "image/png" }],
      ),
    },
  },
  {
    name: "session-state",
    what: "plan, commands, mode, config options, title, usage with a cumulative cost, and notices",
    agent: {
      configOptions: [
        {
          type: "select",
          id: "model",
          name: "Model",
          category: "model",
          currentValue: "large",
          options: [
            { value: "large", name: "Large" },
            { value: "small", name: "Small", description: "Cheaper" },
          ],
        },
        { type: "boolean", id: "web", name: "Web search", currentValue: false },
      ],
      prompts: {
        "Plan it.": async (turn) => {
          await turn.commands({ name: "compact", description: "Summarise the conversation" }, { name: "review", description: "Review a branch", input: { hint: "branch" } });
          await turn.plan(["Read", "high", "in_progress"], ["Edit", "medium", "pending"], ["Test", "low", "pending"]);
          await turn.title("Plan of the work", "2026-01-05T10:00:00Z");
          await turn.say("Planned.");
          await turn.usage(1200, 200000, { amount: 0.0125, currency: "USD" });
          return "end_turn";
        },
        "Do it.": async (turn) => {
          await turn.mode("code");
          await turn.plan(["Read", "high", "completed"], ["Edit", "medium", "in_progress"]);
          await turn.notice("info", "Using the cache", "The prompt was cached before.");
          await turn.notice("warning", "Rate limited");
          await turn.notice("error", "Web search failed", "No network.");
          await turn.config([{ type: "select", id: "model", name: "Model", currentValue: "small", options: [{ value: "small", name: "Small" }] }]);
          await turn.usage(2400, 200000, { amount: 0.02, currency: "USD" });
          await turn.say("Done.");
          await turn.usage(2500, 200000, { amount: 0.0375, currency: "USD" });
          return "end_turn";
        },
        "How much?": async (turn) => {
          await turn.usage(0, 0);
          await turn.commands();
          await turn.plan();
          await turn.title(null);
          return "end_turn";
        },
      },
    },
    client: {
      play: async (editor) => {
        const session = await editor.open();
        await editor.prompt(session, "Plan it.");
        await editor.agent.request("session/set_mode", { sessionId: session, modeId: "ask" });
        await editor.agent.request("session/set_config_option", { sessionId: session, type: "boolean", configId: "web", value: true });
        await editor.agent.request("session/set_config_option", { sessionId: session, configId: "model", value: "small" });
        await editor.prompt(session, "Do it.");
        await editor.prompt(session, "How much?");
      },
    },
  },
  {
    name: "tools",
    what: "tool calls by every way through the statuses, and every kind of tool",
    agent: {
      prompts: {
        "All the way.": async (turn) => {
          const read = await turn.tool("call_1", { title: "Read src/range.rs", name: "read", kind: "read", status: "pending", rawInput: { path: "src/range.rs" }, locations: [{ path: "/home/dev/demo/src/range.rs", line: 1 }] });
          await read.start();
          await read.update({ title: "Read 20 lines", locations: [{ path: "/home/dev/demo/src/range.rs", line: 7 }] });
          await read.complete({ content: "for i in 0..n {}\n" }, [contentOf("for i in 0..n {}\n")]);
          const edit = await turn.tool("call_2", { title: "Edit src/range.rs", name: "edit", kind: "edit", rawInput: { path: "src/range.rs" } });
          await edit.start();
          await edit.complete(undefined, [{ type: "diff", path: "/home/dev/demo/src/range.rs", oldText: "0..n-1\n", newText: "0..n\n" }, { type: "diff", path: "/home/dev/demo/new.rs", newText: "new\n" }]);
          const bash = await turn.tool("call_3", { title: "cargo test", name: "bash", kind: "execute", status: "pending", rawInput: { command: "cargo", args: ["test"] } });
          await bash.start();
          await bash.failed("exit 101: 1 failed", { exitCode: 101 });
          await turn.say("One test fails.");
          return "end_turn";
        },
        "Shortcuts.": async (turn) => {
          await turn.tool("call_4", { title: "ls", name: "ls", kind: "search", status: "completed", rawInput: {}, rawOutput: ["a", "b"], content: [contentOf("a\nb\n")] });
          await turn.tool("call_5", { title: "Fetch https://example.org/", kind: "fetch", status: "failed", content: [contentOf("no network")] });
          const quick = await turn.tool("call_6", { title: "think", name: "think", kind: "think", status: "pending", rawInput: "a string" });
          await quick.complete("another string");
          const running = await turn.tool("call_7", { title: "Move a to b", name: "move", kind: "move", status: "in_progress", rawInput: [1, 2.5, null, { a: true }] });
          await running.complete(17);
          const bare = await turn.tool("call_8", { title: "Something without a name" });
          await bare.update({ kind: "delete", name: "rm", rawInput: { path: "b" }, title: null, status: null, content: null, locations: null });
          await bare.start({ title: "Remove b" });
          await bare.complete(false);
          await turn.tool("call_9", { title: "Switch mode", name: "switch", kind: "switch_mode", status: "completed" });
          return "end_turn";
        },
        "Two at once.": async (turn) => {
          const a = await turn.tool("call_10", { title: "grep a", name: "grep", kind: "search", status: "pending", rawInput: { pattern: "a" } });
          const b = await turn.tool("call_11", { title: "grep b", name: "grep", kind: "search", status: "pending", rawInput: { pattern: "b" } });
          await b.start();
          await a.start();
          await turn.say("While they run.");
          await b.complete({ matches: 2 }, [contentOf("b: 2")]);
          await a.update({ content: [contentOf("a: 1")] });
          await a.complete({ matches: 3 }, [contentOf("a: 3")]);
          await turn.say("Found.");
          return "end_turn";
        },
        "Left open.": async (turn) => {
          const never = await turn.tool("call_12", { title: "sleep", name: "bash", kind: "execute", status: "pending", rawInput: { command: "sleep" } });
          await never.start();
          await turn.tool("call_13", { title: "never started", name: "bash", kind: "execute", status: "pending" });
          return "end_turn";
        },
        "By an update alone.": async (turn) => {
          const call = turn.unannouncedTool("call_14", { status: "pending" });
          await call.update({ title: "Ask the oracle", name: "oracle", kind: "other", status: "in_progress", rawInput: { q: 6 } });
          await call.complete({ a: 42 });
          return "end_turn";
        },
      },
    },
    client: { play: prompts("All the way.", "Shortcuts.", "Two at once.", "Left open.", "By an update alone.") },
  },
  {
    name: "permissions",
    what: "every kind of option chosen, a question that is dismissed, two questions open at once, and a call first heard of in the question",
    agent: {
      prompts: {
        "Ask me.": async (turn) => {
          for (const [i, kind] of ["once", "always", "rejected", "never", "dismissed"].entries()) {
            const call = await turn.tool(`call_${i + 1}`, { title: `Edit ${kind}.rs`, name: "edit", kind: "edit", status: "pending", rawInput: { path: `${kind}.rs` } });
            const chosen = await call.permission(fourOptions, { title: `Edit ${kind}.rs`, kind: "edit", status: "pending", rawInput: { path: `${kind}.rs` } });
            if (chosen.startsWith("allow")) {
              await call.start();
              await call.complete({ written: true });
            } else {
              await call.failed(chosen === "cancelled" ? "nobody answered" : "refused by the user");
            }
          }
          await turn.say("Asked five times.");
          return "end_turn";
        },
        "Ask me two things.": async (turn) => {
          const a = await turn.tool("call_6", { title: "rm a", name: "bash", kind: "execute", status: "pending", rawInput: { command: "rm a" } });
          const b = await turn.tool("call_7", { title: "rm b", name: "bash", kind: "execute", status: "pending", rawInput: { command: "rm b" } });
          const first = a.permission([{ optionId: "a1", name: "Yes", kind: "allow_once" }, { optionId: "a2", name: "No", kind: "reject_once" }]);
          const second = b.permission([{ optionId: "b1", name: "Yes", kind: "allow_once" }, { optionId: "b2", name: "No", kind: "reject_once" }]);
          await second;
          await b.failed("refused by the user");
          await turn.say("Waiting for the other answer.");
          await first;
          await a.start();
          await a.complete({ exitCode: 0 });
          return "end_turn";
        },
        "Ask at once.": async (turn) => {
          const call = turn.unannouncedTool("call_8", { title: "Fetch https://example.org/", kind: "fetch", status: "pending", rawInput: { url: "https://example.org/" } });
          await call.permission([{ optionId: "go", name: "Go", kind: "allow_once" }], { title: "Fetch https://example.org/", kind: "fetch", status: "pending", rawInput: { url: "https://example.org/" } });
          await call.start();
          await call.complete("200 OK");
          return "end_turn";
        },
      },
    },
    client: {
      holds: { answers: { call_1: "yes", call_2: "yes-always", call_3: "no", call_4: "no-always", call_5: "cancelled", call_8: "go" } },
      play: async (editor) => {
        const session = await editor.open();
        await editor.prompt(session, "Ask me.");
        // The first question is answered when the agent has gone on after the second.
        const heard = editor.until((u) => u.sessionUpdate === "agent_message_chunk");
        let asked;
        const first = new Promise((resolve) => (asked = resolve));
        editor.answers.call_6 = async () => {
          asked();
          await heard;
          return "a1";
        };
        editor.answers.call_7 = async () => {
          await first;
          return "b2";
        };
        await editor.prompt(session, "Ask me two things.");
        await editor.prompt(session, "Ask at once.");
      },
    },
  },
  {
    name: "files",
    what: "files read whole and in part and written, within tool calls and without, one that is not there",
    agent: {
      prompts: {
        "Edit the file.": async (turn) => {
          const path = "/home/dev/demo/src/range.rs";
          const read = await turn.tool("call_1", { title: "Read range.rs", name: "read", kind: "read", status: "pending", rawInput: { path }, locations: [{ path }] });
          await read.start();
          const content = await turn.readFile(read, path);
          await read.complete({ content }, [contentOf(content)]);
          const part = await turn.tool("call_2", { title: "Read line 2", name: "read", kind: "read", status: "in_progress", rawInput: { path, line: 2 } });
          const second = await turn.readFile(part, path, { line: 2, limit: 1 });
          await part.complete({ content: second });
          const missing = await turn.tool("call_3", { title: "Read missing.rs", name: "read", kind: "read", status: "in_progress", rawInput: { path: "missing.rs" } });
          await turn.readFile(missing, "/home/dev/demo/missing.rs");
          await missing.failed("no such file");
          const edit = await turn.tool("call_4", { title: "Edit range.rs", name: "edit", kind: "edit", status: "pending", rawInput: { path, old: "0..n-1", new: "0..n" } });
          await edit.start();
          const before = await turn.readFile(edit, path);
          const after = before.replace("0..n-1", "0..n");
          await turn.writeFile(edit, path, after);
          await edit.complete({ changed: 1 }, [{ type: "diff", path, oldText: before, newText: after }]);
          return "end_turn";
        },
        "Just look.": async (turn) => {
          const content = await turn.readFile(null, "/home/dev/demo/README.md");
          await turn.say(`It says: ${content}`);
          return "end_turn";
        },
      },
    },
    client: {
      holds: {
        files: {
          "/home/dev/demo/src/range.rs": "fn range(n: usize) {\n    for i in 0..n-1 {}\n}\n",
          "/home/dev/demo/README.md": "# Demo\n",
        },
      },
      play: prompts("Edit the file.", "Just look."),
    },
  },
  {
    name: "terminals",
    what: "commands that end well, fail, are killed, print more than is kept, and two at once; one of them without a tool call",
    agent: {
      prompts: {
        "Run the tests.": async (turn) => {
          const call = await turn.tool("call_1", { title: "cargo test", name: "bash", kind: "execute", status: "pending", rawInput: { command: "cargo test" } });
          const terminal = await turn.terminal(call, { command: "cargo", args: ["test"], env: [{ name: "CI", value: "1" }], cwd: "/home/dev/demo", outputByteLimit: 65536 });
          await call.start({ content: [{ type: "terminal", terminalId: terminal.id }] });
          const exit = await terminal.wait();
          const { output } = await terminal.output();
          await terminal.release();
          await call.complete({ exitCode: exit.exitCode, output });
          return "end_turn";
        },
        "Fail and kill.": async (turn) => {
          const fails = await turn.tool("call_2", { title: "false", name: "bash", kind: "execute", status: "in_progress", rawInput: { command: "false" } });
          const one = await turn.terminal(fails, { command: "false" });
          await fails.update({ content: [contentOf("running"), { type: "terminal", terminalId: one.id }] });
          await one.wait();
          await one.release();
          await fails.update({ status: "failed", rawOutput: { exitCode: 1 } });
          const hangs = await turn.tool("call_3", { title: "server", name: "bash", kind: "execute", status: "in_progress", rawInput: { command: "server" } });
          const two = await turn.terminal(hangs, { command: "server", args: ["--port", "8080"], outputByteLimit: 12 });
          await hangs.update({ content: [{ type: "terminal", terminalId: two.id }] });
          await two.output();
          await two.kill();
          await two.wait();
          await two.output();
          await two.release();
          await hangs.failed("killed after a timeout");
          return "end_turn";
        },
        "Two at once.": async (turn) => {
          const a = await turn.tool("call_4", { title: "make a", name: "bash", kind: "execute", status: "in_progress", rawInput: { command: "make a" } });
          const b = await turn.tool("call_5", { title: "make b", name: "bash", kind: "execute", status: "in_progress", rawInput: { command: "make b" } });
          const forB = await turn.terminal(b, { command: "make", args: ["b"] });
          const forA = await turn.terminal(a, { command: "make", args: ["a"] });
          await a.update({ content: [{ type: "terminal", terminalId: forA.id }] });
          await b.update({ content: [{ type: "terminal", terminalId: forB.id }] });
          await forB.wait();
          await forB.output();
          await forB.release();
          await b.complete({ exitCode: 0 });
          await forA.wait();
          await forA.release();
          await a.complete({ exitCode: 0 });
          const alone = await turn.terminal(null, { command: "make", args: ["clean"] });
          await alone.wait();
          await alone.release();
          return "end_turn";
        },
      },
    },
    client: {
      holds: {
        commands: {
          cargo: { output: "running 2 tests\ntest result: ok\n", exitCode: 0 },
          false: { output: "", exitCode: 1 },
          server: { output: "starting\nlistening on 8080\n", endless: true },
          make: { output: "made\n", exitCode: 0 },
        },
      },
      play: prompts("Run the tests.", "Fail and kill.", "Two at once."),
    },
  },
  {
    name: "cancel",
    what: "cancelled while a question is open, while a command runs, and while text streams; then an ordinary prompt",
    agent: {
      prompts: {
        "Clean the build.": async (turn) => {
          const call = await turn.tool("call_1", { title: "rm -rf target", name: "bash", kind: "execute", status: "pending", rawInput: { command: "rm -rf target" } });
          await call.permission();
          await turn.cancelled;
          await call.failed("cancelled by the user");
          await turn.usage(900, 200000);
          return "cancelled";
        },
        "Run forever.": async (turn) => {
          const call = await turn.tool("call_2", { title: "server", name: "bash", kind: "execute", status: "pending", rawInput: { command: "server" } });
          const terminal = await turn.terminal(call, { command: "server" });
          await call.start({ content: [{ type: "terminal", terminalId: terminal.id }] });
          await turn.cancelled;
          await terminal.kill();
          await terminal.release();
          return "cancelled"; // the call stays in_progress
        },
        "Talk.": async (turn) => {
          await turn.say(["Once upon ", "a ti"]);
          await turn.cancelled;
          await turn.say("me, late.");
          return "cancelled";
        },
        "Go on.": answer("Here we are."),
      },
    },
    client: {
      holds: { commands: { server: { output: "listening\n", endless: true } } },
      play: async (editor) => {
        const session = await editor.open();
        editor.answers.call_1 = async () => {
          await editor.cancel(session);
          return "cancelled";
        };
        await editor.prompt(session, "Clean the build.");
        const running = editor.until((u) => u.toolCallId === "call_2" && u.status === "in_progress");
        const second = editor.prompt(session, "Run forever.");
        await running;
        await editor.cancel(session);
        await second;
        const talking = editor.until((u) => u.content?.text === "a ti");
        const third = editor.prompt(session, "Talk.");
        await talking;
        await editor.cancel(session);
        await third;
        await editor.prompt(session, "Go on.");
        await editor.cancel(session); // nothing is running: no effect
        await editor.close(session);
      },
    },
  },
  {
    name: "errors",
    what: "prompts that end with a JSON-RPC error, one in the middle of a tool call; a prompt for a session nobody knows; a request that the client takes back",
    agent: {
      stderr: "model endpoint: 529 overloaded\n",
      prompts: {
        "Fail at once.": async (turn) => {
          throw turn.fail(-32603, "Internal error", { details: "model endpoint answered 529" });
        },
        "Fail later.": async (turn) => {
          await turn.say("Let me ");
          const call = await turn.tool("call_1", { title: "cargo test", name: "bash", kind: "execute", status: "pending", rawInput: { command: "cargo test" } });
          await call.start();
          throw turn.fail(-32000, "Authentication required");
        },
        "Take it back.": async (turn) => {
          await turn.say("Working on it.");
          await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
          throw turn.fail(-32800, "Request cancelled");
        },
        "And now?": answer("All is well."),
      },
    },
    client: {
      play: async (editor) => {
        const session = await editor.open();
        await editor.prompt(session, "Fail at once.");
        await editor.prompt(session, "Fail later.");
        await editor.prompt("sess_unknown", "Is anybody there?");
        const back = new AbortController();
        const working = editor.until((u) => u.sessionUpdate === "agent_message_chunk");
        const third = editor.prompt(session, "Take it back.", { cancellationSignal: back.signal });
        await working;
        back.abort();
        await third;
        await editor.prompt(session, "And now?");
      },
    },
  },
  {
    name: "stop-reasons",
    what: "every stop reason of v1 that is not a cancellation",
    agent: {
      prompts: {
        "End.": answer("The end."),
        "Too long.": async (turn) => (await turn.say("Very long te"), "max_tokens"),
        "Too often.": async (turn) => {
          const call = await turn.tool("call_1", { title: "again", name: "loop", status: "in_progress" });
          await call.complete({});
          return "max_turn_requests";
        },
        "No.": async () => "refusal",
      },
    },
    client: { play: prompts("End.", "Too long.", "Too often.", "No.") },
  },
  {
    name: "load",
    what: "a session of another day is loaded: its history is replayed before the answer, with a tool call of the same id as a live one later; then prompts, and between them a second load that replays the first of them too; another session is resumed without replay",
    agent: {
      history: {
        sess_old: async (replay, prompts) => {
          await replay.echo(["Fix the ", "failing test."], "msg_u1");
          await replay.think("Look at range.rs.", "msg_t1");
          const call = await replay.tool("call_1", { title: "Read range.rs", name: "read", kind: "read", status: "completed", rawInput: { path: "range.rs" }, rawOutput: { content: "0..n-1" } });
          await call.update({ content: [contentOf("0..n-1")] });
          await replay.say("Fixed: the range end was off by one.", "msg_a1");
          await replay.echo("Thanks.");
          await replay.say("You are welcome.");
          await replay.usage(5000, 200000, { amount: 0.05, currency: "USD" });
          if (prompts.length === 0) return;
          await replay.echo("What did we do?");
          await replay.tool("call_2", { title: "git log", name: "bash", kind: "execute", status: "completed", rawInput: { command: "git log" }, rawOutput: { output: "fix range\n" } });
          await replay.say("We fixed a range.", "msg_a2");
        },
      },
      prompts: {
        "What did we do?": async (turn) => {
          const call = await turn.tool("call_2", { title: "git log", name: "bash", kind: "execute", status: "in_progress", rawInput: { command: "git log" } });
          await call.complete({ output: "fix range\n" });
          await turn.say("We fixed a range.", "msg_a2");
          await turn.usage(6000, 200000, { amount: 0.06, currency: "USD" });
          return "end_turn";
        },
        "And then?": answer("Nothing."),
        "Go on.": answer("Resumed."),
      },
    },
    client: {
      play: async (editor) => {
        await editor.load("sess_old");
        await editor.prompt("sess_old", "What did we do?");
        await editor.load("sess_old");
        await editor.prompt("sess_old", "And then?");
        await editor.close("sess_old");
        await editor.resume("sess_older");
        await editor.prompt("sess_older", "Go on.");
      },
    },
  },
  {
    name: "close",
    what: "sessions are listed, closed and deleted; a closed session takes no prompt",
    agent: {
      listed: [{ sessionId: "sess_yesterday", cwd: "/home/dev/demo", title: "Yesterday", updatedAt: "2026-01-04T09:00:00Z" }],
      authMethods: [{ id: "key", name: "API key" }],
      prompts: { "Hello.": answer("Hello.") },
    },
    client: {
      play: async (editor) => {
        await editor.agent.request("authenticate", { methodId: "key" });
        const session = await editor.open();
        await editor.prompt(session, "Hello.");
        await editor.agent.request("session/list", {});
        await editor.close(session);
        await editor.prompt(session, "Still there?");
        await editor.agent.request("session/delete", { sessionId: session });
        await editor.agent.request("logout", {});
      },
    },
  },
  {
    name: "two-sessions",
    what: "two sessions on one connection: the second runs and ends while the first waits for an answer, with the same tool call ids and message ids",
    agent: {
      prompts: {
        "First.": async (turn) => {
          await turn.say("I am ", "msg_1");
          const call = await turn.tool("call_1", { title: "rm a", name: "bash", kind: "execute", status: "pending", rawInput: { command: "rm a" } });
          await call.permission();
          await turn.say("the first.", "msg_1");
          await call.start();
          await call.complete({ exitCode: 0 });
          return "end_turn";
        },
        "Second.": async (turn) => {
          await turn.say("I am the second.", "msg_1");
          const call = await turn.tool("call_1", { title: "Read b", name: "read", kind: "read", status: "in_progress", rawInput: { path: "b" } });
          const content = await turn.readFile(call, "/home/dev/other/b");
          await call.complete({ content });
          return "max_tokens";
        },
        "Again.": answer("Still the first."),
      },
    },
    client: {
      holds: { files: { "/home/dev/other/b": "b\n" } },
      play: async (editor) => {
        const a = await editor.open("/home/dev/demo");
        const b = await editor.open("/home/dev/other");
        editor.answers.call_1 = async () => {
          await editor.prompt(b, "Second.");
          return "yes";
        };
        await editor.prompt(a, "First.");
        await editor.close(b);
        await editor.prompt(a, "Again.");
        await editor.close(a);
      },
    },
  },
  {
    name: "compaction",
    what: "compactions that complete, with the summary in chunks, whole, and in chunks and then whole; that fail, and that are cancelled",
    agent: {
      prompts: {
        "/compact": async (turn) => {
          await turn.usage(180000, 200000);
          const whole = await turn.compaction("cmp_1");
          await whole.finish("completed", { summary: "## Progress\nRange fixed." });
          await turn.usage(20000, 200000);
          return "end_turn";
        },
        "A long task.": async (turn) => {
          await turn.say("Working.");
          const chunks = await turn.compaction("cmp_2");
          await chunks.chunk("## Progress\n");
          await chunks.chunk("Tests pass.");
          await chunks.finish("completed");
          const both = await turn.compaction("cmp_3");
          await both.chunk("## Dra");
          await both.finish("completed", { summary: "## Final" });
          const fails = await turn.compaction("cmp_4");
          await fails.finish("failed", { error: "the model refused" });
          const dropped = await turn.compaction("cmp_5");
          await dropped.chunk("half a");
          await dropped.finish("cancelled");
          await turn.say("Finished.");
          return "end_turn";
        },
      },
    },
    client: { play: prompts("/compact", "A long task.") },
  },
  {
    name: "extensions",
    what: "methods that start with an underscore, a question of the agent by a form, unknown keys in _meta; none of it is a turn",
    agent: {
      extensions: {
        "_example.org/status": () => ({ idle: true }),
      },
      prompts: {
        "Which branch?": async (turn) => {
          await turn.client.notify("_example.org/note", { text: "asking" });
          const form = await turn.client.request("elicitation/create", {
            sessionId: turn.session.id,
            mode: "form",
            message: "Which branch?",
            requestedSchema: { type: "object", properties: { branch: { type: "string", title: "Branch" } }, required: ["branch"] },
          });
          const extra = await turn.client.request("_example.org/where", { sessionId: turn.session.id });
          await turn.say(`${form.content.branch} in ${extra.place}`);
          return "end_turn";
        },
      },
    },
    client: {
      extensions: { "_example.org/where": () => ({ place: "a panel" }) },
      play: async (editor) => {
        const session = await editor.open();
        await editor.agent.request("_example.org/status", {});
        await editor.prompt(session, "Which branch?", { meta: { "example.org/panel": { id: 7 } } });
      },
    },
  },
  {
    name: "spelling",
    what: "updates with spaces, escapes, another order of keys, blank lines and CRLF, as other agents than this SDK's write them",
    agent: {
      prompts: {
        "Spell it.": async (turn) => {
          const id = turn.session.id;
          await turn.sayRaw(
            `{ "method" : "session/update", "params" : { "update" : { "content" : {"text":"\\u0041\\/b ", "type":"text"}, "sessionUpdate" : "agent_message_chunk" }, "sessionId" : "${id}" }, "jsonrpc" : "2.0" }\r\n`,
            "A/b ",
          );
          await turn.write(Buffer.from("\n  \r\n"));
          await turn.sayRaw(
            `\t{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${id}","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\\ud83e\\udd80"}}}}  \n`,
            "🦀",
          );
          return "end_turn";
        },
      },
    },
    client: { play: prompts("Spell it.") },
  },
  {
    name: "large",
    what: "a prompt of 1 MiB and a message of 3 MiB in one line each",
    uncommitted: true,
    agent: { prompts: { ["x".repeat(1 << 20)]: answer("Ü".repeat(3 << 19)) } },
    client: { play: prompts("x".repeat(1 << 20)) },
  },
  {
    name: "agent-dies",
    what: "the agent's process ends with code 7 in the middle of a prompt, with a tool running and a message begun",
    agent: {
      exitCode: 7,
      prompts: {
        "Crash.": async (turn) => {
          const call = await turn.tool("call_1", { title: "cargo test", name: "bash", kind: "execute", status: "pending", rawInput: { command: "cargo test" } });
          await call.start();
          await turn.say("About to");
          process.exit(7);
        },
      },
    },
    client: { play: prompts("Crash.") },
  },
];
