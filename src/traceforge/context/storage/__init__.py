"""The database and the keyring: tables, transactions, locks, leases, sealed rows, pages of rows, projects."""
