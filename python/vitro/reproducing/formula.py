"""Formulas of a reproduction map: arithmetic over the metrics of named runs, such as `a.decode_tokens_per_s / b.decode_tokens_per_s`.

A name is a run, what follows its dots a metric (docs/reference/results.md). There are + - * /, comparisons (also chained) and the functions
mean, min and max. Nothing else evaluates, so that a map can not do more than arithmetic.
"""
import ast
import operator

from ..errors import ConfigError

_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_ORDER = {ast.Gt: operator.gt, ast.Lt: operator.lt, ast.GtE: operator.ge, ast.LtE: operator.le}
_FUNCTIONS = {"mean": lambda *values: sum(values) / len(values), "min": min, "max": max}


class Missing(Exception):
    """A run or a metric that the formula needs is not there; the text says which."""


def parse(text, where):
    """-> a callable: (metric) -> number or bool, where metric(run, name) gives a number or raises Missing."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ConfigError(f'{where}: "{text}" is not a formula ({error.msg})') from None
    check(tree, text, where)
    return lambda metric: evaluate(tree, metric)


def check(node, text, where):
    known = (isinstance(node, ast.Attribute)
             or (isinstance(node, ast.Constant) and type(node.value) in (int, float))
             or (isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC)
             or (isinstance(node, ast.Compare) and all(type(op) in _ORDER for op in node.ops))
             or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
                 and node.args and not node.keywords))
    if not known:
        raise ConfigError(f'{where}: "{text}": {ast.unparse(node)} (expected numbers, run.metric, + - * /, comparisons, '
                          f'{", ".join(_FUNCTIONS)})')
    if isinstance(node, ast.Attribute):
        reference(node, text, where)
        return
    for child in parts(node):
        check(child, text, where)


def parts(node):
    return {ast.BinOp: lambda: [node.left, node.right], ast.Compare: lambda: [node.left, *node.comparators],
            ast.Call: lambda: node.args}.get(type(node), list)()


def reference(node, text="", where=""):
    """`a.token_latency_ms.p99` -> ("a", "token_latency_ms.p99")."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ConfigError(f'{where}: "{text}": {ast.unparse(node)} is not a run')
    return node.id, ".".join(reversed(names))


def runs_of(text):
    """The names of the runs that a formula speaks of."""
    return {node.value.id for node in ast.walk(ast.parse(text, mode="eval"))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}


def evaluate(node, metric):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return metric(*reference(node))
    values = [evaluate(child, metric) for child in parts(node)]
    if isinstance(node, ast.Call):
        return _FUNCTIONS[node.func.id](*values)
    if isinstance(node, ast.Compare):
        return all(_ORDER[type(op)](left, right) for op, left, right in zip(node.ops, values, values[1:]))
    if isinstance(node.op, ast.Div) and values[1] == 0:
        raise Missing(f"{ast.unparse(node.right)} is 0")
    return _ARITHMETIC[type(node.op)](*values)
