import { ActionIcon, Button, TextInput, Tooltip } from '@mantine/core';
import type { ReactNode, RefObject } from 'react';
import { ArrowDown, ChevronDown, ChevronUp, Search as SearchIcon } from '../icons';
import styles from './Log.module.css';
import { MATCHES_MAX } from './search';

interface LogToolbarProps {
  status: ReactNode;
  query: string;
  onQuery: (query: string) => void;
  searchRef: RefObject<HTMLInputElement | null>;
  matches: number;
  /** From zero; -1 before the first jump. */
  currentMatch: number;
  searching: boolean;
  onMatch: (step: 1 | -1) => void;
  wrap: boolean;
  onWrap: () => void;
  following: boolean;
  onFollow: () => void;
  allFolded: boolean;
  onFoldAll: () => void;
  extra?: ReactNode;
}

export function LogToolbar(props: LogToolbarProps) {
  const { searchRef, query, matches, currentMatch, searching } = props;
  return (
    <div className={styles.toolbar} role="toolbar" aria-label="Log">
      <TextInput
        ref={searchRef}
        className={styles.search}
        size="xs"
        type="search"
        placeholder="Search log"
        aria-label="Search log"
        leftSection={<SearchIcon />}
        value={query}
        onChange={(event) => props.onQuery(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') props.onMatch(event.shiftKey ? -1 : 1);
          if (event.key === 'Escape') props.onQuery('');
        }}
      />
      {query && (
        <>
          <span className={styles.matches} role="status">
            {matchText(matches, currentMatch, searching)}
          </span>
          <ActionIcon
            variant="subtle"
            size="sm"
            aria-label="Previous match"
            disabled={matches === 0}
            onClick={() => props.onMatch(-1)}
          >
            <ChevronUp />
          </ActionIcon>
          <ActionIcon
            variant="subtle"
            size="sm"
            aria-label="Next match"
            disabled={matches === 0}
            onClick={() => props.onMatch(1)}
          >
            <ChevronDown />
          </ActionIcon>
        </>
      )}
      <span className={styles.status}>{props.status}</span>
      <Button size="compact-xs" variant="subtle" onClick={props.onFoldAll}>
        {props.allFolded ? 'Expand all' : 'Collapse all'}
      </Button>
      <Button
        size="compact-xs"
        variant={props.wrap ? 'light' : 'subtle'}
        aria-pressed={props.wrap}
        onClick={props.onWrap}
      >
        Wrap lines
      </Button>
      <Tooltip label="Keep showing the latest lines">
        <Button
          size="compact-xs"
          variant={props.following ? 'light' : 'subtle'}
          aria-pressed={props.following}
          leftSection={<ArrowDown />}
          onClick={props.onFollow}
        >
          Follow
        </Button>
      </Tooltip>
      {props.extra}
    </div>
  );
}

function matchText(matches: number, current: number, searching: boolean): string {
  const total = matches >= MATCHES_MAX ? `${MATCHES_MAX}+` : String(matches);
  if (matches === 0) return searching ? 'searching…' : 'no match';
  return `${current >= 0 ? `${current + 1} of ` : ''}${total}${searching ? '…' : ''}`;
}
