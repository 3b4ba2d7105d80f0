"""What each file of a snapshot tree holds: records, raw responses, manifest, approvals, and the rules for them."""
