"""Layer freezing (LF): one file per claim, found by its name; a module with an underscore is shared by several."""
