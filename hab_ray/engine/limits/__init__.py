"""Rate limits: the limiter of a provider account, and the clients through which engines request permits."""
