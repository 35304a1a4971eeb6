"""The command line: thin verbs over the library, each in its own module and imported only when called."""
