"""Rules as data: which command selects which family of reducer, with which budgets."""
