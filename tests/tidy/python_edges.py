"""Which package of python/vitro may import which other one. No other import is allowed, no module imports itself in a circle.

An import inside a function counts like one at the top of a file. `python tests/tidy/python_edges.py` prints the edges that there are.
"""
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "vitro"

# A package (a folder) or a module at the root, and what it may import besides the standard library and what pyproject.toml names.
EDGES = {
    "errors": set(),
    "base": {"errors"},
    "scaling": {"base", "errors"},
    "execute": {"base", "errors"},
    "policy": {"base", "errors"},
    "device": {"base", "errors", "execute"},
    "trace": {"base", "errors"},
    "running": {"base", "device", "errors", "execute", "policy", "report", "scaling"},
    "plot": {"base", "errors", "trace"},
    "report": {"base", "plot", "trace"},
    "model": {"base", "errors", "running", "trace"},
    "study": {"base", "device", "errors", "execute", "plot", "policy", "report", "running"},
    "plan": {"base", "errors", "running"},
    "reproducing": {"base", "errors", "execute", "plan", "running"},
    "torture": {"base", "errors"},
    "calibrate": {"base", "errors", "model", "running", "trace"},
    "validate": {"base", "calibrate", "errors", "execute", "model", "plot", "report", "running", "trace"},
    "commands": {"base", "errors", "model", "plot", "report", "reproducing", "running", "study", "trace"},
    "schema": {"base", "errors", "running"},
    "cli": {"base", "calibrate", "commands", "device", "errors", "model", "plan", "reproducing", "running", "schema", "study", "torture",
            "trace", "validate"},
    "__main__": {"cli"},
    # What `import vitro` offers, mostly loaded on first use.
    "__init__": {"base", "device", "errors", "model", "plot", "policy", "reproducing", "running", "scaling", "study", "trace"},
}


def modules(package=PACKAGE):
    """-> {("running", "result"): the parsed file, ("cli",): ...}; a package's own code is ("plot", "__init__")."""
    return {path.relative_to(package).with_suffix("").parts: ast.parse(path.read_text(), str(path)) for path in sorted(package.rglob("*.py"))}


def imports(module, tree, known):
    """-> [(line, imported module)] of one module, of those that are `known`. A lazy table counts: {"run": ".running.experiments"}."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            start = module[:len(module) - node.level] if node.level else None
            if start is None and (node.module or "").split(".")[0] != "vitro":
                continue
            base = (start or ()) + tuple(node.module.split(".") if node.module else ())
            base = base[1:] if start is None else base
            found += [(node.lineno, base + (alias.name,) if base + (alias.name,) in known or (*base, alias.name, "__init__") in known else base)
                      for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, tuple(alias.name.split(".")[1:])) for alias in node.names if alias.name.split(".")[0] == "vitro"]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("."):
            found.append((node.lineno, tuple(node.value[1:].split("."))))
    whole = [(line, name if name in known else (*name, "__init__")) for line, name in found]
    return [(line, name) for line, name in whole if name in known and name != module]


def graph(trees):
    return {module: imports(module, tree, trees.keys()) for module, tree in trees.items()}


def strangers(edges, allowed=EDGES):
    """-> "module:line: message" of each import that no edge allows."""
    return [f"{'.'.join(module)}:{line}: {module[0]} may not import {target[0]} ({'.'.join(target)})"
            for module, found in edges.items() for line, target in found
            if target[0] != module[0] and target[0] not in allowed.get(module[0], ())]


def circle(edges):
    """-> the modules of one circle of imports, or of packages, in order; empty where there is none."""
    def first(nodes):
        done = set()

        def visit(node, path):
            if node in path:
                return [*path[path.index(node):], node]
            if node in done:
                return []
            for after in sorted(nodes.get(node, ())):
                if found := visit(after, [*path, node]):
                    return found
            done.add(node)
            return []

        return next((found for node in sorted(nodes) if (found := visit(node, []))), [])

    between = {}
    for module, found in edges.items():
        between.setdefault(module[0], set()).update(target[0] for _, target in found if target[0] != module[0])
    return first({module: {target for _, target in found} for module, found in edges.items()}) or first(between)


if __name__ == "__main__":
    there = graph(modules())
    for package in EDGES:
        print(package, "->", ", ".join(sorted({target[0] for module, found in there.items() for _, target in found
                                               if module[0] == package != target[0]})) or "nothing")
    print(*strangers(there), *circle(there), sep="\n")
    sys.exit(bool(strangers(there) or circle(there)))
