"""What tests share: the corpus, Node.js as a judge, generated JSON texts."""
