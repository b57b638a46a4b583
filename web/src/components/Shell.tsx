import { ActionIcon, Drawer, Menu as DropMenu, UnstyledButton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useRouter, useRouterState, type LinkProps } from '@tanstack/react-router';
import { Suspense, useEffect, type ComponentType } from 'react';
import type { LiveState } from '../api/live';
import { signOut } from '../api/mutations';
import { userQuery } from '../api/queries';
import { useLiveConnection } from '../hooks/useLive';
import { Box, Branch, ChevronUp, Hammer, Home, Layers, Menu, Person, Play, Server } from '../ui/icons';
import { Loading } from '../ui/States';
import { ColorSchemeSwitch } from './ColorSchemeSwitch';
import { Mark } from './Mark';
import styles from './Shell.module.css';

const places: { to: LinkProps['to']; label: string; icon: ComponentType; exact?: boolean }[] = [
  { to: '/', label: 'Home', icon: Home, exact: true },
  { to: '/pipelines', label: 'Pipelines', icon: Play },
  { to: '/builds', label: 'Builds', icon: Hammer },
  { to: '/applications', label: 'Applications', icon: Layers },
  { to: '/repositories', label: 'Repositories', icon: Branch },
  { to: '/runtimes', label: 'Runtimes & runners', icon: Server },
];

/** The frame of every signed-in page: where one can go, who one is, and whether the page is live. */
export function Shell() {
  const live = useLiveConnection();
  const [opened, menu] = useDisclosure();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const { close } = menu;
  useEffect(close, [path, close]);
  return (
    <div className={styles.shell}>
      <a className="skip-link" href="#main">
        Skip to the content
      </a>
      <aside className={styles.side} aria-label="Slipway">
        <Side live={live} />
      </aside>
      <header className={styles.bar}>
        <ActionIcon variant="transparent" color="white" aria-label="Open the menu" onClick={menu.open}>
          <Menu />
        </ActionIcon>
        <Brand />
        <LiveSign state={live} />
      </header>
      <Drawer
        opened={opened}
        onClose={menu.close}
        size={230}
        withCloseButton={false}
        attributes={{ content: { 'aria-label': 'Menu' } }}
        classNames={{ content: styles.drawer ?? '', body: styles.drawerBody ?? '' }}
      >
        <Side live={live} />
      </Drawer>
      <main id="main" className={styles.main} tabIndex={-1}>
        <Suspense fallback={<Loading rows={6} />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" className={styles.brand}>
      <Mark />
      <span>Slipway</span>
    </Link>
  );
}

function Side({ live }: { live: LiveState }) {
  return (
    <>
      <Brand />
      <nav className={styles.nav} aria-label="Pages">
        {places.map(({ to, label, icon: Icon, exact }) => (
          <Link key={to} to={to} className={styles.place} activeOptions={{ exact: exact ?? false }}>
            <Icon />
            {label}
          </Link>
        ))}
      </nav>
      <div className={styles.foot}>
        <LiveSign state={live} />
        <ColorSchemeSwitch />
        <Account />
      </div>
    </>
  );
}

/** Says nothing while all is well; a page that does not renew itself must not look as if it did. */
function LiveSign({ state }: { state: LiveState }) {
  return (
    <div className={styles.live} role="status">
      {state === 'reconnecting' && (
        <>
          <span className={styles.pulse} aria-hidden="true" />
          Reconnecting…
        </>
      )}
    </div>
  );
}

function Account() {
  const { data: user } = useQuery(userQuery);
  const queryClient = useQueryClient();
  const router = useRouter();
  const leave = async () => {
    await signOut().catch(() => undefined);
    queryClient.clear();
    await router.navigate({ to: '/login' });
  };
  if (!user) return null;
  return (
    <DropMenu position="top-start" width={220}>
      <DropMenu.Target>
        <UnstyledButton className={styles.account} aria-label={`Account of ${user.userName}`}>
          <Person />
          <span className="ellipsis">{user.userName}</span>
          <ChevronUp />
        </UnstyledButton>
      </DropMenu.Target>
      <DropMenu.Dropdown>
        <DropMenu.Label>
          {user.email}
          <br />
          account {user.activeAccountName}
        </DropMenu.Label>
        <DropMenu.Item
          leftSection={<Box />}
          component="a"
          href="/api/openapi.json"
          target="_blank"
          rel="noreferrer"
        >
          HTTP contract
        </DropMenu.Item>
        <DropMenu.Item onClick={() => void leave()}>Sign out</DropMenu.Item>
      </DropMenu.Dropdown>
    </DropMenu>
  );
}
