"""What Python users call and what needs both runs and their reports: compare, resume, report, plot."""
