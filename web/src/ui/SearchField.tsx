import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useState } from 'react';
import { Search } from './icons';

interface SearchFieldProps {
  value: string;
  onChange: (value: string) => void;
  label?: string;
  placeholder: string;
}

/** What is typed shows at once; the address and the server hear of it when the typing rests. */
export function SearchField({ value, onChange, label = 'Search', placeholder }: SearchFieldProps) {
  const [typed, setTyped] = useState<string>();
  const settle = useDebouncedCallback((text: string) => {
    onChange(text);
    setTyped(undefined);
  }, 200);
  return (
    <TextInput
      size="xs"
      type="search"
      label={label}
      placeholder={placeholder}
      leftSection={<Search />}
      style={{ width: 240 }}
      value={typed ?? value}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        settle(event.currentTarget.value);
      }}
    />
  );
}
