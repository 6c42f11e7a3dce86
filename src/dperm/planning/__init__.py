"""What a plan is made of, before any row is read: schedules, samples, prices, sensitivities and public rules."""
