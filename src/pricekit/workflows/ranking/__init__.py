"""The leaderboard: trained models of one table, ranked on the same rows. Only measuring predictions imports torch."""
