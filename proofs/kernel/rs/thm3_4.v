(* rs.thm3.4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.4 (eq. 12).
   Clipped SGD with RS on a G-smooth L, p~ symmetric with P(|xi| < 3C/4) >= sqrt(1 - r): there is kappa in (1 - r, 1) with (1/T) sum P h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma G C^2/2 - (1/T) sum E_m b_t), h(v) = min(|v|, C/4). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3 rs.thm3_2.
(* The case without deviation: all gradients are the true one, p_t is the point mass at 0, which is symmetric. With p~ = p, P = 1 and b_t = 0.
   The masks are as in rs.thm3.2. *)
Fixpoint clipped_run (C : R) (g : vec -> vec) (gamma : R) (m : nat -> list bool) (w : vec) (t : nat) : vec :=
  match t with O => w | S t' => let u := clipped_run C g gamma m w t' in sub u (scale gamma (clip C (mask (m t') (g u)))) end.
Definition printed : Prop := forall d k C G gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k < kappa < 1 /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2)).

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, T = 450, gamma = 1/90: at least 1 on the left, at most 4/5 on the right *)
Lemma short6 a b : 0 <= a <= 1 -> 0 <= b <= 1 -> clip 6 [a; b] = [a; b].
Proof. intros. apply clip_short, norm_le; unfold square, dot; simpl; nra. Qed.
Lemma first_run t : exists a, 0 <= a <= 1 /\ clipped_run 6 (fun u => u) (1 / 90) (fun _ => [true; false]) [1; 1] t = [a; 1].
Proof. induction t as [|t (a & r & IH)]; [exists 1; split; [lra | reflexivity]|]. cbn [clipped_run]. rewrite IH. cbn [mask]. rewrite short6 by lra.
  exists (a - 1 / 90 * a). split; [lra|]. unfold sub, scale. cbn [zip map]. apply f_equal2; [reflexivity|]. f_equal. ring. Qed.
Lemma second_run t : exists a, 0 <= a <= 1 /\ clipped_run 6 (fun u => u) (1 / 90) (fun _ => [false; true]) [1; 1] t = [1; a].
Proof. induction t as [|t (a & r & IH)]; [exists 1; split; [lra | reflexivity]|]. cbn [clipped_run]. rewrite IH. cbn [mask]. rewrite short6 by lra.
  exists (a - 1 / 90 * a). split; [lra|]. unfold sub, scale. cbn [zip map]. apply f_equal2; [ring|]. reflexivity. Qed.
Lemma at_least_one c v : 3 / 2 <= c -> 1 <= square v <= 2 -> 1 <= Rmin (norm v) c * norm v.
Proof. intros c0 [a b]. assert (norm v <= 3 / 2) by (apply norm_le; lra). rewrite Rmin_left by lra. rewrite norm_norm. exact a. Qed.
Definition mean_left (c : R) (m : nat -> list bool) : R :=
  / INR 450 * total (map (fun t => let v := clipped_run 6 (fun u => u) (1 / 90) m [1; 1] t in Rmin (norm v) c * norm v) (seq 0 450)).
Lemma left_side c m : 3 / 2 <= c -> In m [fun _ : nat => [true; false]; fun _ => [false; true]] -> 1 <= mean_left c m.
Proof.
  intros c0 i. unfold mean_left. assert (n0 : 0 < INR 450) by (apply lt_0_INR; lia). apply (Rmult_le_reg_l (INR 450)); [exact n0|].
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. apply Rle_trans with (INR (length (seq 0 450)) * 1); [rewrite seq_length; lra|].
  apply total_ge, Forall_forall. intros t _. cbv zeta. apply at_least_one; [exact c0|].
  destruct i as [<-|[<-|[]]]; [destruct (first_run t) as (a & r & ->) | destruct (second_run t) as (a & r & ->)]; unfold square, dot; cbn [zip total fold_right]; nra.
Qed.
Lemma n450 : INR 450 = 450. Proof. rewrite INR_IZR_INZ. reflexivity. Qed.
Lemma held_value c : E held (mean_left c) = (mean_left c (fun _ => [true; false]) + mean_left c (fun _ => [false; true])) / 2.
Proof. unfold E, held. cbn [map total fold_right fst snd]. field. Qed.
Lemma start_loss : square [1; 1] = 2. Proof. unfold square, dot; simpl; ring. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 2%nat 1%nat 6 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (kappa & [k0 _] & le).
  change (E held (mean_left (6 / 4)) <= 1 / kappa * ((square [1; 1] / 2 - 0) / (1 / 90 * INR 450) + 1 / 90 * (1 * 6 ^ 2 / 2))) in le.
  rewrite held_value, n450, start_loss in le.
  pose proof (left_side (6 / 4) _ ltac:(lra) (or_introl eq_refl)) as a. pose proof (left_side (6 / 4) _ ltac:(lra) (or_intror (or_introl eq_refl))) as b.
  set (A := mean_left (6 / 4) (fun _ => [true; false])) in *. set (B := mean_left (6 / 4) (fun _ => [false; true])) in *. clearbody A B.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0.
  assert (1 / kappa < 2). { apply (Rmult_lt_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.
