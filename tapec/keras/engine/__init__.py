"""What Keras takes for a backend, made of tapec's functions; `tapec.keras.loading` says how it is found."""
