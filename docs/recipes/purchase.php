<?php
// A shop's back end reports a purchase, when it is paid, with PHP 8 and no extension. The address and user agent are those of the
// visitor's request to the shop: they find the visit that the browser began, and are not stored.
//
//   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… php purchase.php '{"id": "T-1", …}'
declare(strict_types=1);

/** Returns "recorded" or "ignored". The same transaction_id counts once, so that a purchase can be sent again. */
function purchase(array $order): string
{
    $body = json_encode([
        'event' => 'purchase',
        'ip' => $order['ip'],
        'user_agent' => $order['userAgent'],
        'path' => '/checkout/thanks',
        'meta' => [
            'transaction_id' => $order['id'],
            'value' => $order['total'],
            'currency' => $order['currency'],
            'items' => $order['items'],
        ],
    ], JSON_THROW_ON_ERROR);
    $request = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ['Content-Type: application/json', 'Authorization: Bearer ' . getenv('SERVER_SECRET')],
        'content' => $body,
        'timeout' => 10,
    ]]);
    $text = file_get_contents(getenv('ANALYTICS_URL') . '/server.php', false, $request);
    if ($text === false) {
        throw new RuntimeException('not stored: send it again later');
    }
    return json_decode($text, true, 8, JSON_THROW_ON_ERROR)['status'];
}

echo purchase(json_decode($argv[1], true, 8, JSON_THROW_ON_ERROR)), "\n";
