"""JSON Schema of experiments, devices and plans, for completion in editors (docs/guide/editors.md).

Nothing here lists keys: they are asked of the engine's own reader, whose messages say which keys there are and what each expects.
"""
