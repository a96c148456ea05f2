"""Has `vf-eval` play the taskset of a served world; its model is an endpoint that says what is to be said."""

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

url, _, said, written = sys.argv[1:]
messages = json.loads(said)


class Scripted(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        delta = {"role": "assistant", "content": messages[turn]}
        chunk = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": "stop"}]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
Thread(target=server.serve_forever, daemon=True).start()
folder = Path(tempfile.mkdtemp())
(folder / "served_world.py").write_text(
    "from trajmill.worlds.serve.verifiers_world import *\nfrom trajmill.worlds.serve.verifiers_world import __all__\n"
)
command = [str(Path(sys.executable).with_name("vf-eval")), "served_world", "--env.taskset.url", url, "--no-push"]
command += ["--client.type", "eval", "--client.base-url", f"http://127.0.0.1:{server.server_port}/v1"]
command += ["--client.api-key-var", "KEY", "--model", "scripted", "--run.dir", "run", "--num-rollouts", "2"]
paths = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])
subprocess.run(command, cwd=folder, env={**os.environ, "KEY": "none", "PYTHONPATH": paths}, check=True)
traces = (folder / "outputs" / "run" / "traces.jsonl").read_text().splitlines()
with open(written, "w") as out:
    for trace in (trace for line in traces for trace in json.loads(line)["traces"]):
        shown = [node["message"]["content"] for node in trace["nodes"] if node["message"]["role"] == "user"][1:]
        out.write(json.dumps({"session": trace["info"]["trajmill_session"], "shown": shown}) + "\n")
