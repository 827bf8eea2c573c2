"""What a run spends, as a reader takes it away: the trade-off curve, an attacker's chances, the statement."""
