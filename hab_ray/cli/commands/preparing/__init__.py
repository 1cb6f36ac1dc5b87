"""Commands that prepare a run: sweep files, rubrics, data, models, the machine."""
