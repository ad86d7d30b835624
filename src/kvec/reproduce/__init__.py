"""The paper's experiments, each by one command: cells are planned, run in processes, kept as CSV and reported, §V."""
