"""HTML pages, figures and tables of finished runs, sweeps and advices."""
