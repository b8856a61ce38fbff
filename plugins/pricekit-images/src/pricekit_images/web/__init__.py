"""Downloads over HTTP, of links that strangers wrote."""
