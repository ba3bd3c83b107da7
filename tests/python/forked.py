"""Commands as children of a process that has loaded the command line: a command then costs no interpreter's start and no imports.

`Server` runs this file as a program. It loads every command once, and forks for each request; the child takes the request's folder,
environment, input and output and leaves as `python -m vitro` does.
"""
import atexit
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading


# What typer and rich load when the first command runs.
LATE = ("typer._adapters", "typer.rich_utils", "typer._click.decorators", "typer._click._textwrap", "rich._emoji_codes")


class Server:
    """Of one environment. Commands run one at a time. packages: what they use besides; a fork takes longer the more is loaded."""

    def __init__(self, env, packages=()):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([sys.executable, __file__, *packages], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def run(self, words, stdin, folder, env, timeout):
        """-> (exit code, stdout, stderr), negative for a signal."""
        with self.lock, tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (given, out, err)]
            request = {"words": [os.fsdecode(word) for word in words], "folder": str(folder), "env": env, "files": files}
            print(json.dumps(request), file=self.process.stdin, flush=True)
            watch = threading.Timer(timeout, self.process.kill)
            watch.start()
            answer = self.process.stdout.readline()
            watch.cancel()
            if not answer:
                raise subprocess.TimeoutExpired(words, timeout)
            out.seek(0)
            err.seek(0)
            return int(answer), out.read(), err.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve():
    """Answers each line with an exit code. -> in a child, what it has to do; None at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)
    return None


def become(request):
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, (path, mode) in enumerate(zip(request["files"], (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND))):
        os.dup2(os.open(path, mode), number)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = ["vitro", *request["words"]]
    sys.path[0] = request["folder"]


def load(packages):
    """What a command would load by itself, after the fork: half of its time, if it is a short one."""
    from vitro.base import native
    from vitro.cli import COMMANDS, main
    from vitro.errors import RunError

    for module, _ in COMMANDS.values():
        importlib.import_module(module, "vitro")
    for module in (*LATE, *packages):
        importlib.import_module(module)
    importlib.import_module("pydantic").TypeAdapter(int)  # which typer makes of options: the first one looks for plug-ins
    with contextlib.suppress(RunError):
        native.module()
    gc.freeze()  # a child's collections then write to no page that it shares
    return main


def leave(main):
    """As an interpreter does, but for taking itself down object by object: a fifth to a half of a short command's time."""
    try:
        code = main()
    except SystemExit as exit:
        code = exit.code
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    main = load(sys.argv[1:])
    if task := serve():
        become(task)
        leave(main)
