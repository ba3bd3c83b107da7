"""Pages of HTML, with their pictures inside."""
