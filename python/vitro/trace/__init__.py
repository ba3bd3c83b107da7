"""What a run leaves behind: traces, decision logs, recordings."""
