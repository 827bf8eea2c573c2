"""Layer freezing (LF): a file has the claims of one topic, found by their ids; one with an underscore has what several share."""
