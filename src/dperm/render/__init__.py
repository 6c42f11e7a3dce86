"""How things are shown: numbers, text for a terminal, HTML, SVG, one style sheet. It knows nothing of what is shown."""
