"""The paper's experiments: configurations in TOML, one results file each, figures from results alone."""
