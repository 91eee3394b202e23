"""Changes and claims become commits and rows, whether a hook, the watcher or a scan found them."""
