"""clients.py OTELAGENT BODIES ANSWERS RECORDING: a server on loopback, asked by the official SDKs and by `otelagent request --send`.

The SDKs send the bodies that backend/session/replay made, and read the answers that its tests have: what they take for an answer is one. Then
otelagent asks the same server, and must come to the same path with the same authorization. Of Anthropic it asks in API version 2023-06-01, with
x-api-key, as recorded requests were made for it; the SDK's major version 2 asks in 2026-10-21, where sampling parameters are gone.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import warnings

warnings.simplefilter("ignore")  # models of recorded requests grow old

import anthropic  # noqa: E402
import openai  # noqa: E402

KEY = "key-of-a-test"
PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai-chat", "/v1/responses": "openai-responses"}
SDK_BASE = {"anthropic": "", "openai-chat": "/v1", "openai-responses": "/v1"}

otelagent, bodies, answers, recording = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked.append((self.path, self.headers, json.loads(body)))
        raw = (answers / (PATHS[self.path] + ".json")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args):
        pass


def authorization(headers):
    """What says who asks, and in which version of an API."""
    return {k: headers[k] for k in ("X-Api-Key", "Authorization", "Anthropic-Version") if headers[k]}


def sdk(form, base, body):
    """Asks by the official SDK and returns what it reads of the answer: text and tool calls."""
    body = {k: v for k, v in body.items() if k not in ("stream", "stream_options")}
    if form == "anthropic":
        extra = {k: body.pop(k) for k in ("temperature", "top_p", "top_k") if k in body}  # out of the SDK's types, see judge.py
        m = anthropic.Anthropic(api_key=KEY, base_url=base, max_retries=0).messages.create(**body, extra_body=extra)
        anthropic.types.Message.model_validate(m.model_dump())
        return [b.text for b in m.content if b.type == "text"], [b.name for b in m.content if b.type == "tool_use"]
    client = openai.OpenAI(api_key=KEY, base_url=base, max_retries=0)
    if form == "openai-chat":
        m = client.chat.completions.create(**body).choices[0].message
        return [m.content], [c.function.name for c in m.tool_calls]
    r = client.responses.create(**body)
    return [r.output_text], [o.name for o in r.output if o.type == "function_call"]


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    os.environ["KEY_OF_A_TEST"] = KEY
    with tempfile.TemporaryDirectory() as scratch:
        db = f"{scratch}/s.db"
        subprocess.run([otelagent, "send", "--db", db, "--capture", "content", recording], check=True, capture_output=True)
        for form in PATHS.values():
            said = []
            for path in sorted(bodies.glob(f"*.{form}.json")):
                body = json.loads(path.read_bytes())
                asked.clear()
                got = sdk(form, base + SDK_BASE[form], body)
                if got != (["I read it."], ["read_file"]):
                    sys.exit(f"{path.name}: the SDK reads another answer: {got}")
                want = {k: v for k, v in body.items() if k not in ("stream", "stream_options")}
                if len(asked) != 1 or asked[0][2] != want:
                    sys.exit(f"{path.name}: the SDK sends another body than it was given")
                said.append((asked[0][0], authorization(asked[0][1])))
            if not said or any(s != said[0] for s in said):
                sys.exit(f"{form}: the SDK asks in several ways: {said}")
            asked.clear()
            command = [otelagent, "request", "last/3", "--db", db, "--as", form, "--send", base, "--key-env", "KEY_OF_A_TEST", "--output", "json"]
            p = subprocess.run(command, capture_output=True, text=True)
            if p.returncode != 0 or json.loads(p.stdout)["answered"]["text"] != "I read it.":
                sys.exit(f"{form}: otelagent is not answered: {p.stderr}")
            if KEY in p.stdout + p.stderr:
                sys.exit(f"{form}: otelagent shows the key")
            ours = [(path, authorization(headers)) for path, headers, _ in asked]
            want = said[0]
            if form == "anthropic":
                want = (want[0], {"X-Api-Key": KEY, "Anthropic-Version": "2023-06-01"})
            if ours != [want]:
                sys.exit(f"{form}: otelagent asks {ours}, not {want}")
            print(f"{form}: {len(said)} bodies sent by the SDK, otelagent asks there too: {ours[0][0]}, {', '.join(ours[0][1])}")
    server.shutdown()


main()
