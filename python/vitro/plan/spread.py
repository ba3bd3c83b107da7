"""Hot shares that differ by layer and expert (PowerInfer-2, section 5: neurons are classified by how often they are active)."""

_HALVINGS = 60  # of the price of a hot neuron


def spread(tables, most):
    """tables: {ffn: [(hot neurons, seconds)]}, ascending. most: neurons that are hot in all of them together, or as few less as choices
    allow. -> {ffn: hot neurons}, the least sum of seconds: at one price for a neuron in all FFNs, which may be a gift, and what is left
    over where it saves most."""
    high = max(seconds for rows in tables.values() for _, seconds in rows) + 1.0
    low = -high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(_at_price(tables, middle).values()) <= most else (middle, high)
    chosen = _at_price(tables, high)
    while True:
        left = most - sum(chosen.values())
        gains = [((_seconds(tables[ffn], chosen[ffn]) - seconds) / (hot - chosen[ffn]), str(ffn), ffn, hot) for ffn, rows in tables.items()
                 for hot, seconds in rows if chosen[ffn] < hot <= chosen[ffn] + left]
        gain, _, ffn, hot = max(gains, default=(0.0, "", None, 0))
        if ffn is None:
            return chosen
        chosen[ffn] = hot


def total(tables, chosen):
    """Seconds of all FFNs."""
    return sum(_seconds(rows, chosen[ffn]) for ffn, rows in tables.items())


def _seconds(rows, hot):
    return next(seconds for own, seconds in rows if own == hot)


def _at_price(tables, price):
    return {ffn: min(rows, key=lambda row: (row[1] + price * row[0], row[0]))[0] for ffn, rows in tables.items()}
