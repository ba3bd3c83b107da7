int nothing_of_vitro(void) { return 0; }
