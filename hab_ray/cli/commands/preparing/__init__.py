"""Commands for what a run needs: sweep files, rubrics, data, models, a machine."""
