import './styles';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { watchBlocked } from './api/reach';
import { createApp } from './app';
import { LiveContext } from './hooks/useLive';
import { theme } from './theme';

const root = document.getElementById('root');
if (!root) throw new Error('index.html has an element with the id `root`');

watchBlocked(document);
const { queryClient, router, live } = createApp();

createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <Notifications position="bottom-right" autoClose={6000} limit={4} />
      <QueryClientProvider client={queryClient}>
        <LiveContext value={live}>
          <RouterProvider router={router} />
        </LiveContext>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
