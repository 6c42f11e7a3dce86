"""Time and memory of single fits over the number of rows and of columns, each measured in a process of its own."""
