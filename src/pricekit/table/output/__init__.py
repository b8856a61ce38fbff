"""Write predictions, rejected rows and other frames to files, atomically."""
