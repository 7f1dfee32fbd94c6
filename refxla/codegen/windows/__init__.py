"""Operations on a window around each element."""
