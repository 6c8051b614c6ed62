"""Which model a name means, and why. Pure: it knows neither processes nor HTTP."""
