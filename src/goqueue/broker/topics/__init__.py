"""Operations on topics, and what retention means to their readers."""
