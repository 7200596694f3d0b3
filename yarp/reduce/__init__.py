"""Result reduction: the short true answer, with a way back to the bytes."""
